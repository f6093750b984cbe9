{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* Annotations of a hook's Job. */}}
{{- define "gputopo.hooked" -}}
helm.sh/hook: {{ . }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* Annotations of what a hook's Job needs: made before it, gone after it. */}}
{{- define "gputopo.hook" -}}
{{ include "gputopo.hooked" . }}
helm.sh/hook-weight: "-1"
{{- end }}

{{/* The spec of a hook's Job: one command of our image by the account of this name. `definitions`: a ConfigMap that is mounted. */}}
{{- define "gputopo.hook-job" -}}
backoffLimit: 3
template:
  metadata:
    labels:
      app.kubernetes.io/name: gputopo-{{ .name }}
      {{- include "gputopo.podLabels" (list .root (dict)) | nindent 6 }}
  spec:
    restartPolicy: Never
    serviceAccountName: {{ include "gputopo.name" .root }}-{{ .name }}
    enableServiceLinks: false
    {{- with .root.Values.image.pullSecrets }}
    imagePullSecrets:
      {{- toYaml . | nindent 4 }}
    {{- end }}
    nodeSelector:
      {{- toYaml .root.Values.scheduler.nodeSelector | nindent 6 }}
    {{- with .root.Values.scheduler.tolerations }}
    tolerations:
      {{- toYaml . | nindent 4 }}
    {{- end }}
    automountServiceAccountToken: true
    securityContext:
      runAsNonRoot: true
      runAsUser: 65532
      runAsGroup: 65532
      fsGroup: 65532
      seccompProfile:
        type: RuntimeDefault
    containers:
    - name: {{ .name }}
      image: {{ include "gputopo.image" .root }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      command: {{ .command }}
      resources:
        requests: {cpu: 10m, memory: 32Mi}
        limits: {memory: 256Mi}
      securityContext:
        privileged: false
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      {{- with .definitions }}
      volumeMounts:
      - {name: definitions, mountPath: /definitions, readOnly: true}
      {{- end }}
    {{- with .definitions }}
    volumes:
    - name: definitions
      configMap: {name: {{ . }}}
    {{- end }}
{{- end }}
