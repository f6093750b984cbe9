{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* What the names of our objects begin with. There is one gputopo in a cluster, so the release's name is no part of it. */}}
{{- define "gputopo.name" -}}
{{ .Values.fullnameOverride | default .Values.nameOverride | default "gputopo" }}
{{- end }}

{{/* Of a list: the root, the program that the object is about or nothing, further annotations as text. Labels end it, so that more of
them may follow. daemonset/generate leaves out those that Helm alone knows. */}}
{{- define "gputopo.metadata" -}}
{{- $root := index . 0 -}}
{{- $annotations := deepCopy $root.Values.commonAnnotations -}}
{{- if gt (len .) 2 }}{{ $annotations = mergeOverwrite $annotations (index . 2 | fromYaml) }}{{ end -}}
{{- with $annotations -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{ end -}}
labels:
  {{- with rest . }}
  {{- with first . }}
  app.kubernetes.io/name: gputopo-{{ . }}
  {{- end }}
  {{- end }}
  {{- include "gputopo.labels" $root | nindent 2 }}
{{- end }}

{{- define "gputopo.labels" -}}
app.kubernetes.io/part-of: gputopo
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Of a list: the root, further labels of these pods. No version, which would replace pods for a new chart alone. */}}
{{- define "gputopo.podLabels" -}}
{{ toYaml (merge (dict "app.kubernetes.io/part-of" "gputopo") (index . 1) (index . 0).Values.commonLabels) }}
{{- end }}

{{- define "gputopo.image" -}}
{{ include "gputopo.image-of" (list . .Values.image) }}
{{- end }}

{{/* Of the root and one image's values. */}}
{{- define "gputopo.image-of" -}}
{{- $root := index . 0 -}}
{{- with index . 1 -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $root.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{/* Volcano's configuration where none is given. */}}
{{- define "gputopo.volcano" -}}
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
  - name: gpu-podaffinity
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
  - name: gpu-aware
    arguments:
      weight: 1
      loss.weight: 0.5
{{- end }}

{{/* Arguments out of a map of options: null is left out, a switch that is called no-... has no value, a list gets commas. */}}
{{- define "gputopo.options" -}}
{{- range $name, $value := . -}}
{{- if kindIs "invalid" $value -}}
{{- else if and (kindIs "bool" $value) (or (hasPrefix "no-" $name) (has $name (list "dra-composites" "kubelet-configz"))) -}}
{{- if $value }}
- --{{ $name }}
{{- end -}}
{{- else if kindIs "slice" $value }}
- --{{ $name }}={{ join "," $value }}
{{- else if kindIs "string" $value }}
- {{ printf "--%s=%s" $name $value | toJson }}
{{- else }}
- --{{ $name }}={{ toJson $value }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The file with further kinds of jobs; nothing where there are none. */}}
{{- define "gputopo.kinds" -}}
{{- with .Values.placement.kinds }}
{{- dict "kinds" . | toYaml }}
{{- end }}
{{- end }}

{{- define "gputopo.port" -}}
{{ regexFind "[0-9]+$" . }}
{{- end }}

{{/* The directories of the host that both containers see under the same path. */}}
{{- define "gputopo.kubelet" -}}
{{ index .Values.agent.options "kubelet-dir" | default "/var/lib/kubelet" }}
{{- end }}
{{- define "gputopo.dev" -}}
{{ index .Values.agent.options "dev-root" | default "/dev" }}
{{- end }}

{{- define "gputopo.probe" -}}
{{ if and (ne .Values.probe.mode "none") (not .Values.agent.recordings.configMap) }}yes{{ end }}
{{- end }}

{{/* Also where GPUs went back to the plugin in so many words: claims may be left. */}}
{{- define "gputopo.dra" -}}
{{ if and (eq .Values.mode "full") (index .Values.agent.options "advertise") }}yes{{ end }}
{{- end }}

{{/* ValidatingAdmissionPolicies, and the node in an agent's token, which they read. */}}
{{- define "gputopo.policies" -}}
{{ if semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version }}yes{{ end }}
{{- end }}

{{/* The companion needs NodeGPUTopologies. */}}
{{- define "gputopo.companion" -}}
{{ if and .Values.scheduler.enabled (ne .Values.mode "annotationsOnly") }}yes{{ end }}
{{- end }}

{{- define "gputopo.placement" -}}
{{ if and .Values.placement.enabled (include "gputopo.companion" .) }}yes{{ end }}
{{- end }}

{{/* Schedulers are answered, by TLS too; also without placement, where scheduler.options.only names the extender. */}}
{{- define "gputopo.extender" -}}
{{ if or (include "gputopo.placement" .) (and (include "gputopo.companion" .) (has "extender" (.Values.scheduler.options.only | default list))) }}yes{{ end }}
{{- end }}

{{- define "gputopo.claims" -}}
{{ if and (include "gputopo.placement" .) (not (eq (toString (index .Values.scheduler.options "claims" | default "none")) "none")) }}yes{{ end }}
{{- end }}

{{- define "gputopo.reads-pods" -}}
{{ if and (eq .Values.mode "full") (not (eq (toString (index .Values.agent.options "honour-plan")) "false")) }}yes{{ end }}
{{- end }}

{{- define "gputopo.projects" -}}
{{ has .what (.root.Values.scheduler.options.project | default list) | ternary "yes" "" }}
{{- end }}

{{/* How agents are replaced, and their probes. */}}
{{- define "gputopo.update" -}}
type: {{ .Values.agent.updateStrategy }}
{{- if eq .Values.agent.updateStrategy "RollingUpdate" }}
rollingUpdate:
  maxUnavailable: {{ .Values.agent.maxUnavailable }}
  maxSurge: 0 # two of one node would displace each other
{{- end }}
{{- end }}

{{/* Of a DaemonSet or a Deployment; nothing where Kubernetes chooses. */}}
{{- define "gputopo.history" -}}
{{- if not (kindIs "invalid" .Values.revisionHistoryLimit) }}
  revisionHistoryLimit: {{ .Values.revisionHistoryLimit }}
{{- end }}
{{- end }}

{{/* Which nodes have an agent, and its probe. */}}
{{- define "gputopo.nodes" -}}
nodeSelector:
  {{- toYaml .Values.agent.nodeSelector | nindent 2 }}
  {{- if eq .Values.agent.nodes "installed" }}
  metax-tech.com/gpu.installed: "true"
  {{- end }}
{{- $affinity := deepCopy .Values.agent.affinity }}
{{- if eq .Values.agent.nodes "pci" }}
{{- $vendor := .Values.agent.options.vendor | default "9999" | toString | lower | trimPrefix "0x" }}
{{- $terms := list }}
{{- range .Values.agent.pciClasses }}
{{- $key := printf "feature.node.kubernetes.io/pci-%s_%s.present" (toString .) $vendor }}
{{- $terms = append $terms (dict "matchExpressions" (list (dict "key" $key "operator" "In" "values" (list "true")))) }}
{{- end }}
{{- $_ := set $affinity "nodeAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms)) }}
{{- end }}
{{- with $affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.agent.tolerations }}
tolerations:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{/* Of a NetworkPolicy: who may ask one port. */}}
{{- define "gputopo.ingress" -}}
{{- if .from -}}
ingress:
- ports: [{port: {{ .port }}, protocol: TCP}]
  from:
  {{- toYaml .from | nindent 2 }}
{{- else -}}
ingress: []
{{- end -}}
{{- end }}

{{- define "gputopo.to-api-server" -}}
egress:
- ports:
  {{- range .Values.networkPolicy.apiServerPorts }}
  - {port: {{ . }}, protocol: TCP}
  {{- end }}
  {{- if .Values.networkPolicy.apiServerCidrs }}
  to:
  {{- include "gputopo.api-server" . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "gputopo.api-server" -}}
{{- range $i, $cidr := .Values.networkPolicy.apiServerCidrs -}}
{{ if $i }}{{ "\n" }}{{ end }}- ipBlock: {cidr: {{ $cidr | quote }}}
{{- end -}}
{{- end }}

{{/* A condition in CEL: this metadata has a key below metax-tech.com/. */}}
{{- define "gputopo.ownKeys" -}}
((has({{ . }}.annotations) && {{ . }}.annotations.exists(k, k.startsWith("metax-tech.com/"))) ||
(has({{ . }}.labels) && {{ . }}.labels.exists(k, k.startsWith("metax-tech.com/"))))
{{- end }}
