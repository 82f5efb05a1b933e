{{- /* The base of all object names, cut so that the longest suffix fits. */}}
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

{{- /* The value of a flag in `args`: empty if absent, `true` if it has no value. The last occurrence counts. */}}
{{- define "supercargo.flag" -}}
{{- $value := "" }}
{{- $alone := printf "--%s" .flag }}
{{- range .args }}
{{- if eq . $alone }}{{ $value = "true" }}{{ else if hasPrefix (printf "%s=" $alone) . }}{{ $value = trimPrefix (printf "%s=" $alone) . }}{{ end }}
{{- end }}
{{- $value }}
{{- end }}

{{- /* The configuration in the ConfigMap. If `config` names no lease, the chart names one for this release: kube-scheduler holds the default
       lease of KubeSchedulerConfiguration, so supercargo would never lead. A profile default-scheduler keeps that default: it replaces
       kube-scheduler, and contends with it. */}}
{{- define "supercargo.config" -}}
{{- $own := dict "resourceName" (include "supercargo.fullname" .) "resourceNamespace" .Release.Namespace }}
{{- if .Values.config }}
{{- $config := deepCopy .Values.config }}
{{- $replaces := not $config.profiles }}
{{- range default list $config.profiles }}
{{- if eq (default "default-scheduler" .schedulerName) "default-scheduler" }}{{ $replaces = true }}{{ end }}
{{- end }}
{{- if not (or $replaces .Values.shadowOf) }}
{{- $election := default dict $config.leaderElection }}
{{- range $field, $value := $own }}
{{- if not (index $election $field) }}{{ $_ := set $election $field $value }}{{ end }}
{{- end }}
{{- $_ := set $config "leaderElection" $election }}
{{- end }}
{{- toYaml $config }}
{{- else if .Values.shadowOf }}
{{- include "supercargo.shadowConfig" . }}
{{- else }}
{{- $text := index (.Files.Get "base/config-map.yaml" | fromYaml).data "config.yaml" }}
{{- $text = replace "resourceName: supercargo" (printf "resourceName: %s" $own.resourceName) $text }}
{{- replace "resourceNamespace: kube-system" (printf "resourceNamespace: %s" $own.resourceNamespace) $text }}
{{- end }}
{{- end }}

{{- /* leaderElect, resourceName and resourceNamespace as the program reads them from configuration and flags. Shadow mode has no leader election. */}}
{{- define "supercargo.lease" -}}
{{- $written := default dict (include "supercargo.config" . | fromYaml).leaderElection }}
{{- $args := .Values.extraArgs }}
{{- $elect := $written.leaderElect }}
{{- if not (or (kindIs "bool" $elect) (kindIs "invalid" $elect)) }}
{{- fail (printf "config.leaderElection.leaderElect is %v: it must be true or false" $elect) }}
{{- end }}
{{- $elect = ne $elect false }}
{{- with include "supercargo.flag" (dict "args" $args "flag" "leader-elect") }}{{ $elect = ne . "false" }}{{ end }}
{{- $name := default (default "kube-scheduler" $written.resourceName) (include "supercargo.flag" (dict "args" $args "flag" "leader-elect-resource-name")) }}
{{- $namespace := default (default "kube-system" $written.resourceNamespace) (include "supercargo.flag" (dict "args" $args "flag" "leader-elect-resource-namespace")) }}
{{- dict "leaderElect" (and $elect (not .Values.shadowOf)) "resourceName" $name "resourceNamespace" $namespace | toYaml }}
{{- end }}

{{- /* Rejects invalid values: flags that other values set, and several replicas without leader election. */}}
{{- define "supercargo.checkArgs" -}}
{{- range $flag, $value := dict "config" "config" "shadow-of" "shadowOf" }}
{{- if include "supercargo.flag" (dict "args" $.Values.extraArgs "flag" $flag) }}
{{- fail (printf "extraArgs must not have --%s: set the value `%s` instead" $flag $value) }}
{{- end }}
{{- end }}
{{- if include "supercargo.flag" (dict "args" .Values.extraArgs "flag" "secure-port") }}
{{- fail "extraArgs must not have --secure-port: probes, Service and NetworkPolicy use port 10259; remove the flag" }}
{{- end }}
{{- $elects := or .Values.shadowOf (include "supercargo.lease" . | fromYaml).leaderElect }}
{{- if and (not $elects) (gt (int (default 1 .Values.replicas)) 1) }}
{{- fail (printf "replicas is %v, but there is no leader election (config.leaderElection.leaderElect or --leader-elect): every replica would act on the same pods; set replicas to 1, or leaderElect to true" .Values.replicas) }}
{{- end }}
{{- end }}

{{- /* The size of /tmp in MiB: at least the base's, plus twice the limit of each file in `extraArgs`, since its predecessor is kept. */}}
{{- define "supercargo.tmpMiB" -}}
{{- $mebibytes := 16 }}
{{- range $file, $size := dict "decision-log" (list "decision-log-max-bytes" 104857600) "record-to" (list "record-max-bytes" 1073741824) }}
{{- with include "supercargo.flag" (dict "args" $.Values.extraArgs "flag" $file) }}
{{- if not (regexMatch "^/tmp[/]" .) }}
{{- fail (printf "extraArgs: --%s=%s cannot be written: the file system is read-only except for /tmp; name a file below /tmp" $file .) }}
{{- end }}
{{- $bytes := int64 (default (last $size) (include "supercargo.flag" (dict "args" $.Values.extraArgs "flag" (first $size)))) }}
{{- $mebibytes = add $mebibytes (mul 2 (add 1 (div $bytes 1048576))) }}
{{- end }}
{{- end }}
{{- max 256 $mebibytes }}
{{- end }}

{{- /* Applies the values to the base's Deployment. */}}
{{- define "supercargo.deployment" -}}
{{- $values := .root.Values }}
{{- $pod := .object.spec.template.spec }}
{{- $container := index $pod.containers 0 }}
{{- $_ := set $container "name" "supercargo" }}
{{- $_ := set $container "image" (printf "%s:%s" $values.image.repository (default .root.Chart.AppVersion $values.image.tag)) }}
{{- $_ := set $container "imagePullPolicy" $values.image.pullPolicy }}
{{- /* A flag occurs once: one in `extraArgs` replaces the base's. */}}
{{- $args := list }}
{{- range $container.args }}
{{- $flag := index (splitList "=" .) 0 | trimPrefix "--" }}
{{- if not (include "supercargo.flag" (dict "args" $values.extraArgs "flag" $flag)) }}{{ $args = append $args . }}{{ end }}
{{- end }}
{{- $_ := set $container "args" (concat $args $values.extraArgs) }}
{{- with $values.shadowOf }}
{{- $_ := set $container "args" (append $container.args (printf "--shadow-of=%s" .)) }}
{{- end }}
{{- if not .lease.leaderElect }}
{{- $_ := set .object.spec "replicas" 1 }}
{{- $_ := set .object.spec "strategy" (dict "type" "Recreate") }}
{{- end }}
{{- range $volume := $pod.volumes }}
{{- if eq $volume.name "tmp" }}{{ $_ := set $volume.emptyDir "sizeLimit" (printf "%sMi" (include "supercargo.tmpMiB" $.root)) }}{{ end }}
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

{{- /* The configuration of shadow mode if none is given: the defaults. */}}
{{- define "supercargo.shadowConfig" -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
profiles:
- schedulerName: {{ .Values.shadowOf }}
{{- end }}
