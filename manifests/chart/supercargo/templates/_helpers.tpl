{{- /* What every object is called after, cut so that the longest suffix still fits into a name. */}}
{{- define "supercargo.fullname" -}}
{{- if contains "supercargo" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-supercargo" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "supercargo.labels" -}}
app.kubernetes.io/name: supercargo
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: scheduler
app.kubernetes.io/part-of: supercargo
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* The values of the Deployment, put into that of the base. */}}
{{- define "supercargo.deployment" -}}
{{- $values := .root.Values }}
{{- $pod := .object.spec.template.spec }}
{{- $container := index $pod.containers 0 }}
{{- $_ := set $container "name" "supercargo" }}
{{- $_ := set $container "image" (printf "%s:%s" $values.image.repository (default .root.Chart.AppVersion $values.image.tag)) }}
{{- $_ := set $container "imagePullPolicy" $values.image.pullPolicy }}
{{- $_ := set $container "args" (concat $container.args $values.extraArgs) }}
{{- with $values.shadowOf }}
{{- $_ := set $container "args" (append $container.args (printf "--shadow-of=%s" .)) }}
{{- $_ := set $.object.spec "replicas" 1 }}
{{- end }}
{{- with $values.resources }}{{ $_ := set $container "resources" . }}{{ end }}
{{- with $values.image.pullSecrets }}{{ $_ := set $pod "imagePullSecrets" . }}{{ end }}
{{- range $key := list "priorityClassName" "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" }}
{{- with index $values $key }}{{ $_ := set $pod $key . }}{{ end }}
{{- end }}
{{- with $values.podAnnotations }}{{ $_ := set $.object.spec.template.metadata "annotations" . }}{{ end }}
{{- if not (kindIs "invalid" $values.replicas) }}{{ $_ := set .object.spec "replicas" (int $values.replicas) }}{{ end }}
{{- $labels := include "supercargo.labels" .root | fromYaml }}
{{- $_ := set .object.spec.template.metadata "labels" (merge $labels .object.spec.template.metadata.labels) }}
{{- end }}

{{- /* What a shadow judges by, where no configuration is given: the defaults. */}}
{{- define "supercargo.shadowConfig" -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
profiles:
- schedulerName: {{ .Values.shadowOf }}
{{- end }}
