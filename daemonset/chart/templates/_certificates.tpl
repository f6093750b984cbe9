{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "gputopo.secret" -}}
{{ with .Values.placement.certificates }}{{ eq .mode "existing" | ternary .secretName (printf "%s-scheduler-tls" (include "gputopo.name" $)) }}{{ end }}
{{- end }}

{{/* What the companion is called by those who ask it. */}}
{{- define "gputopo.names" -}}
{{- $service := printf "%s-scheduler" (include "gputopo.name" .) -}}
{{- $own := list $service -}}
{{- range list "" ".svc" ".svc.cluster.local" -}}
{{- $own = append $own (printf "%s.%s%s" $service $.Release.Namespace .) -}}
{{- end -}}
{{- $addresses := list -}}
{{- range .Values.placement.certificates.extraNames -}}
{{- if regexMatch "^[0-9.]+$|:" . -}}{{- $addresses = append $addresses . -}}{{- else -}}{{- $own = append $own . -}}{{- end -}}
{{- end -}}
{{ dict "dns" $own "ip" $addresses | toJson }}
{{- end }}

{{/* JSON: the data of the companion's Secret, of kube-scheduler's, and `names` and `renew`, which show the next upgrade
whether they are still good. What is in the cluster is kept as long as it is. */}}
{{- define "gputopo.certificates" -}}
{{- $names := include "gputopo.names" . -}}
{{- $hash := sha256sum $names | trunc 16 -}}
{{- $days := int .Values.placement.certificates.validityDays -}}
{{- $prefix := include "gputopo.name" . -}}
{{- $server := lookup "v1" "Secret" .Release.Namespace (printf "%s-scheduler-tls" $prefix) -}}
{{- $client := lookup "v1" "Secret" .Release.Namespace (printf "%s-kube-scheduler-tls" $prefix) -}}
{{- $said := dig "metadata" "annotations" dict ($server | default dict) -}}
{{- $renew := index $said "topology.metax-tech.com/renew" | default "0" -}}
{{- if and $client (eq (index $said "topology.metax-tech.com/names" | default "") $hash) (gt (int64 $renew) (now | unixEpoch | int64)) -}}
{{ dict "server" $server.data "client" $client.data "names" $hash "renew" $renew | toJson }}
{{- else -}}
{{- $names = fromJson $names -}}
{{- $ca := genCAWithKey (printf "%s-scheduler-ca" $prefix) $days (genPrivateKey "ecdsa") -}}
{{- $one := genSignedCertWithKey (printf "%s-scheduler" $prefix) $names.ip $names.dns $days $ca (genPrivateKey "ecdsa") -}}
{{- $other := genSignedCertWithKey "kube-scheduler" nil nil $days $ca (genPrivateKey "ecdsa") -}}
{{- $authority := b64enc $ca.Cert -}}
{{ dict "server" (dict "tls.crt" (b64enc $one.Cert) "tls.key" (b64enc $one.Key) "ca.crt" $authority) "client" (dict "tls.crt" (b64enc $other.Cert) "tls.key" (b64enc $other.Key) "ca.crt" $authority) "names" $hash "renew" (now | unixEpoch | int64 | add (mul $days 43200) | toString) | toJson }}
{{- end -}}
{{- end }}
