{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{- /* Made of api/kinds by daemonset/generate. */ -}}
{{- define "gputopo.kindRoles" -}}
- apiGroups: [apps]
  resources: [replicasets, statefulsets]
  verbs: [list, watch]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [list, watch]
- apiGroups: [batch.volcano.sh]
  resources: [jobs]
  verbs: [list, watch]
- apiGroups: [elastic.iml.github.io]
  resources: [elasticjobs]
  verbs: [list, watch]
- apiGroups: [jobset.x-k8s.io]
  resources: [jobsets]
  verbs: [list, watch]
- apiGroups: [kubeflow.org]
  resources: [jaxjobs, mpijobs, paddlejobs, pytorchjobs, tfjobs, xgboostjobs]
  verbs: [list, watch]
- apiGroups: [leaderworkerset.x-k8s.io]
  resources: [leaderworkersets]
  verbs: [list, watch]
- apiGroups: [ray.io]
  resources: [rayclusters]
  verbs: [list, watch]
{{- range .Values.placement.kinds }}
- apiGroups: [{{ first (splitList "/" .apiVersion) }}]
  resources: [{{ .resource }}]
  verbs: [list, watch]
{{- end }}
{{- end }}
{{- define "gputopo.kindHooks" -}}
- {apiGroups: [batch.volcano.sh], apiVersions: [v1alpha1], resources: [jobs], operations: [CREATE, UPDATE], scope: Namespaced}
- {apiGroups: [elastic.iml.github.io], apiVersions: [v1alpha1], resources: [elasticjobs], operations: [CREATE, UPDATE], scope: Namespaced}
- {apiGroups: [jobset.x-k8s.io], apiVersions: [v1alpha2], resources: [jobsets], operations: [CREATE, UPDATE], scope: Namespaced}
- {apiGroups: [kubeflow.org], apiVersions: [v1], resources: [jaxjobs, mpijobs, paddlejobs, pytorchjobs, tfjobs, xgboostjobs], operations: [CREATE, UPDATE], scope: Namespaced}
- {apiGroups: [kubeflow.org], apiVersions: [v2beta1], resources: [mpijobs], operations: [CREATE, UPDATE], scope: Namespaced}
- {apiGroups: [leaderworkerset.x-k8s.io], apiVersions: [v1], resources: [leaderworkersets], operations: [CREATE, UPDATE], scope: Namespaced}
- {apiGroups: [ray.io], apiVersions: [v1], resources: [rayclusters, rayjobs, rayservices], operations: [CREATE, UPDATE], scope: Namespaced}
{{- range .Values.placement.kinds }}
- {apiGroups: [{{ first (splitList "/" .apiVersion) }}], apiVersions: [{{ last (splitList "/" .apiVersion) }}], resources: [{{ .resource }}], operations: [CREATE, UPDATE], scope: Namespaced}
{{- end }}
{{- end }}
