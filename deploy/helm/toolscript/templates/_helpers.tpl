{{/* The names of all objects: the release's, with the chart's where that is not in it. */}}
{{- define "toolscript.fullname" -}}
{{- $name := ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name) -}}
{{- $name | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{/* The labels by which the gateways' pods are found. They never change. */}}
{{- define "toolscript.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gateway
{{- end }}

{{- define "toolscript.commonLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "toolscript.labels" -}}
{{ include "toolscript.commonLabels" . }}
app.kubernetes.io/component: gateway
{{- end }}

{{- define "toolscript.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* How many gateways there are at least. */}}
{{- define "toolscript.leastReplicas" -}}
{{ ternary .Values.autoscaling.minReplicas .Values.replicaCount .Values.autoscaling.enabled }}
{{- end }}

{{/* What is the same for every pod, gateways and single commands. */}}
{{- define "toolscript.podSecurity" -}}
automountServiceAccountToken: false
{{- /* Of a service by the name of toolscript they would set TOOLSCRIPT_PORT, to an address. */}}
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What is the same for every container. */}}
{{- define "toolscript.containerSecurity" -}}
image: {{ include "toolscript.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* The variables that lead to the database. */}}
{{- define "toolscript.databaseEnv" -}}
{{- $secret := required "database.existingSecret is empty; name a secret with the address of the database" .Values.database.existingSecret }}
{{- $seal := required "secretKey.existingSecret is empty; name a secret with the key, as from: openssl rand -base64 32" .Values.secretKey.existingSecret -}}
- name: TOOLSCRIPT_DATABASE
  valueFrom:
    secretKeyRef: { name: {{ $secret | quote }}, key: {{ .Values.database.urlKey | quote }} }
- name: TOOLSCRIPT_SECRET_KEY
  valueFrom:
    secretKeyRef: { name: {{ $seal | quote }}, key: {{ .Values.secretKey.key | quote }} }
{{- with .Values.secretKey.previousKey }}
- name: TOOLSCRIPT_SECRET_KEY_PREVIOUS
  valueFrom:
    secretKeyRef: { name: {{ $seal | quote }}, key: {{ . | quote }} }
{{- end }}
{{- end }}

{{- define "toolscript.volumes" -}}
- name: data
  emptyDir: { sizeLimit: {{ .Values.volumes.data | quote }} }
- name: tmp
  emptyDir: { sizeLimit: {{ .Values.volumes.tmp | quote }} }
{{- end }}

{{/* The pod of a single command. Takes the root, a name and the command's arguments. */}}
{{- define "toolscript.commandPod" -}}
{{- $root := index . 0 -}}
restartPolicy: Never
{{ include "toolscript.podSecurity" $root }}
containers:
  - name: {{ index . 1 }}
    {{- include "toolscript.containerSecurity" $root | nindent 4 }}
    args: {{ index . 2 | toJson }}
    env: {{- include "toolscript.databaseEnv" $root | nindent 6 }}
    volumeMounts:
      - { name: data, mountPath: /data }
      - { name: tmp, mountPath: /tmp }
volumes: {{- include "toolscript.volumes" $root | nindent 2 }}
{{- end }}
