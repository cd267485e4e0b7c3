{{- define "latchkey.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Room is left for suffixes: an object's name has at most 63 characters. */}}
{{- define "latchkey.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "latchkey.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "latchkey.selector" -}}
app.kubernetes.io/name: {{ include "latchkey.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gateway
{{- end -}}

{{/* Labels of an object; call with (dict "root" $ "component" "gateway"). */}}
{{- define "latchkey.labels" -}}
{{- $root := .root -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ include "latchkey.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/part-of: latchkey
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "latchkey.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "latchkey.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "latchkey.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end -}}

{{/* A Go duration (1h2m3.5s, 500ms) as whole seconds, rounded up. */}}
{{- define "latchkey.seconds" -}}
{{- $text := . | toString -}}
{{- if not (regexMatch "^([0-9]+(\\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$" $text) -}}
{{- fail (printf "%q is not a duration such as 500ms, 30s or 1h30m" $text) -}}
{{- end -}}
{{- $seconds := 0.0 -}}
{{- range $part := regexFindAll "[0-9]+(\\.[0-9]+)?(ns|us|µs|ms|s|m|h)" $text -1 -}}
{{- $number := regexFind "^[0-9.]+" $part | float64 -}}
{{- $unit := regexFind "[a-zµ]+$" $part -}}
{{- $scale := get (dict "ns" 0.000000001 "us" 0.000001 "µs" 0.000001 "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0) $unit -}}
{{- $seconds = addf $seconds (mulf $number $scale) -}}
{{- end -}}
{{- ceil $seconds -}}
{{- end -}}

{{/* The slowest tool's timeout in seconds: a tool's own, else its downstream's, else 30s. */}}
{{- define "latchkey.longest" -}}
{{- $longest := 0 -}}
{{- if not .Values.existingConfig.name -}}
{{- range $name, $tool := .Values.config.tools -}}
{{- $downstream := get ($.Values.config.downstreams | default dict) ($tool.downstream | default "") | default dict -}}
{{- $longest = max $longest (include "latchkey.seconds" ($tool.timeout | default $downstream.timeout | default "30s") | int) -}}
{{- end -}}
{{- end -}}
{{- if .Values.longestToolTimeout -}}
{{- $given := include "latchkey.seconds" .Values.longestToolTimeout | int -}}
{{- if lt $given (int $longest) -}}
{{- fail (printf "longestToolTimeout %s is shorter than the slowest tool of config.tools, which may take %d s" .Values.longestToolTimeout (int $longest)) -}}
{{- end -}}
{{- $longest = $given -}}
{{- else if .Values.existingConfig.name -}}
{{- fail "longestToolTimeout must be given with existingConfig.name: the chart cannot read it there" -}}
{{- end -}}
{{- $longest -}}
{{- end -}}

{{/* The gateway itself gives calls under way longest + lease + 5 s; 5 s more are ours. */}}
{{- define "latchkey.grace" -}}
{{- $lease := empty .Values.existingConfig.name | ternary (.Values.config.lease | default "10s") .Values.existingConfig.lease -}}
{{- $needed := add (int .Values.preStopSeconds) (include "latchkey.longest" . | int) (include "latchkey.seconds" $lease | int) 10 -}}
{{- if kindIs "invalid" .Values.terminationGracePeriodSeconds -}}
{{- $needed -}}
{{- else if lt (int .Values.terminationGracePeriodSeconds) (int $needed) -}}
{{- fail (printf "terminationGracePeriodSeconds %d would cut off the slowest tool: it must be at least %d" (int .Values.terminationGracePeriodSeconds) (int $needed)) -}}
{{- else -}}
{{- int .Values.terminationGracePeriodSeconds -}}
{{- end -}}
{{- end -}}

{{/* The configuration file, from .Values.config and what the chart knows better. */}}
{{- define "latchkey.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- range $name := list "listen" "operator_listen" "replica" -}}
{{- if hasKey $config $name -}}
{{- fail (printf "config.%s is set by the chart: see agents.port and operators.port" $name) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $config "listen" (printf "0.0.0.0:%d" (int .Values.agents.port)) -}}
{{- $_ := set $config "operator_listen" (printf "0.0.0.0:%d" (int .Values.operators.port)) -}}
{{- $_ := set $config "replica" "${env:POD_NAME}" -}}
{{- $redis := $config.redis | default dict -}}
{{- if not (or $redis.addrs (eq ($redis.mode | default "") "embedded")) -}}
{{- fail "config.redis.addrs must be given: the chart installs no Redis" -}}
{{- end -}}
{{- if not (($config.auth | default dict).keys) -}}
{{- fail "config.auth.keys must be given: without a key nobody could call" -}}
{{- end -}}
{{- $store := $config.store | default dict -}}
{{- if not (or .Values.existingSecrets.dsn.name $store.dsn $store.path) -}}
{{- fail "existingSecrets.dsn.name (or config.store.dsn) must be given: the chart installs no PostgreSQL" -}}
{{- end -}}
{{- if and .Values.existingSecrets.dsn.name (not $store.dsn) -}}
{{- $_ := set $store "dsn" "${env:LATCHKEY_DSN}" -}}
{{- end -}}
{{- if and .Values.migration.enabled (not (hasKey $store "migrate")) -}}
{{- $_ := set $store "migrate" false -}}
{{- end -}}
{{- $_ := set $config "store" $store -}}
{{- if and .Values.existingSecrets.redisPassword.name (not $redis.password) -}}
{{- $_ := set $redis "password" "${env:LATCHKEY_REDIS_PASSWORD}" -}}
{{- end -}}
{{- $_ := set $config "redis" $redis -}}
{{- toYaml $config -}}
{{- end -}}

{{/* Environment of a pod; call with (dict "root" $ "dsn" <existing secret>). */}}
{{- define "latchkey.env" -}}
{{- $s := .root.Values.existingSecrets -}}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- with .root.Values.goMemLimit }}
- name: GOMEMLIMIT
  value: {{ . | quote }}
{{- end }}
{{- if .dsn.name }}
- name: LATCHKEY_DSN
  valueFrom:
    secretKeyRef:
      name: {{ .dsn.name }}
      key: {{ .dsn.key }}
{{- end }}
{{- if $s.redisPassword.name }}
- name: LATCHKEY_REDIS_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ $s.redisPassword.name }}
      key: {{ $s.redisPassword.key }}
{{- end }}
{{- range $name, $from := $s.env }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef:
      name: {{ $from.name }}
      key: {{ $from.key }}
{{- end }}
{{- with .root.Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "latchkey.volumeMounts" -}}
- name: config
  mountPath: /etc/latchkey/config
  readOnly: true
{{- with .Values.existingSecrets.keyHashes.name }}
- name: key-hashes
  mountPath: /etc/latchkey/keys
  readOnly: true
{{- end }}
{{- range $i, $file := .Values.existingSecrets.files }}
- name: secret-{{ $i }}
  mountPath: {{ $file.mountPath }}
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Volumes of a pod; call with (dict "root" $ "config" <name of the object>). */}}
{{- define "latchkey.volumes" -}}
{{- $v := .root.Values -}}
- name: config
{{- if $v.existingConfig.name }}
  secret:
    secretName: {{ $v.existingConfig.name }}
    defaultMode: 0440
    items: [{key: {{ $v.existingConfig.key | quote }}, path: latchkey.yaml}]
{{- else if eq $v.configKind "ConfigMap" }}
  configMap:
    name: {{ .config }}
{{- else }}
  secret:
    secretName: {{ .config }}
    defaultMode: 0440
{{- end }}
{{- with $v.existingSecrets.keyHashes.name }}
- name: key-hashes
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- range $i, $file := $v.existingSecrets.files }}
- name: secret-{{ $i }}
  secret:
    secretName: {{ $file.name }}
    defaultMode: 0440
{{- end }}
{{- with $v.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Egress rules, for the gateway and its migration Job alike. */}}
{{- define "latchkey.egress" -}}
{{- if .Values.networkPolicy.egress.restrict }}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
{{- with .Values.networkPolicy.egress.rules }}
{{ toYaml . }}
{{- end }}
{{- else }}
- {}
{{- end }}
{{- end -}}
