package main

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// typical returns the pods for the decoding benchmark: one of scheduler_perf, and one with the fields of a typical production service.
func typical() map[string]runtime.Object {
	return map[string]runtime.Object{"small": smallPod(), "production": productionPod()}
}

func ptr[T any](value T) *T { return &value }

// managed returns managedFields as the API server writes them.
func managed(manager string, fields int) metav1.ManagedFieldsEntry {
	var text strings.Builder
	text.WriteString(`{"f:spec":{"f:containers":{`)
	for i := range fields {
		fmt.Fprintf(&text, `"k:{\"name\":\"container-%d\"}":{".":{},"f:image":{},"f:resources":{}},`, i)
	}
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
		Time:     ptr(metav1.Unix(1_790_000_000, 0)),
		FieldsV1: &metav1.FieldsV1{Raw: []byte(strings.TrimSuffix(text.String(), ",") + `}}}`)},
	}
}

func amounts(cpu, memory string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
}

func meta(name string, labels, annotations map[string]string, entries ...metav1.ManagedFieldsEntry) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, GenerateName: "web-5d8c7f6b9-", Namespace: "shop", UID: "0b0c5a3e-8a64-4f6c-9f5d-6d1f7a5f2a11", ResourceVersion: "123456789",
		Generation: 1, CreationTimestamp: metav1.Unix(1_790_000_000, 0), Labels: labels, Annotations: annotations, ManagedFields: entries,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d8c7f6b9", UID: "6c3ad7ac-64a4-4a5e-8a3b-2f6f5e1f0c22",
			Controller: ptr(true), BlockOwnerDeletion: ptr(true),
		}},
	}
}

func smallPod() *v1.Pod {
	return &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: meta("web-5d8c7f6b9-x2x9p", map[string]string{"app": "web"}, nil, managed("kube-controller-manager", 8)),
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: ptr(int64(30)), DNSPolicy: v1.DNSClusterFirst,
			ServiceAccountName: "default", SchedulerName: v1.DefaultSchedulerName, Priority: ptr(int32(0)), EnableServiceLinks: ptr(true),
			PreemptionPolicy: ptr(v1.PreemptLowerPriority), SecurityContext: &v1.PodSecurityContext{},
			Containers: []v1.Container{{
				Name: "pause", Image: "registry.k8s.io/pause:3.10", ImagePullPolicy: v1.PullIfNotPresent, TerminationMessagePath: "/dev/termination-log",
				Resources: v1.ResourceRequirements{Requests: amounts("100m", "500Mi")}, Ports: []v1.ContainerPort{{ContainerPort: 80, Protocol: v1.ProtocolTCP}},
			}},
			Tolerations: []v1.Toleration{
				{Key: v1.TaintNodeNotReady, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: ptr(int64(300))},
				{Key: v1.TaintNodeUnreachable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: ptr(int64(300))},
			},
		},
		Status: v1.PodStatus{Phase: v1.PodPending, QOSClass: v1.PodQOSBurstable},
	}
}

func probe(path string) *v1.Probe {
	return &v1.Probe{
		ProbeHandler:        v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: path, Port: intstr.FromString("http"), Scheme: v1.URISchemeHTTP}},
		InitialDelaySeconds: 5, TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
	}
}

func productionContainer(i int) v1.Container {
	container := v1.Container{
		Name: fmt.Sprintf("container-%d", i), Image: fmt.Sprintf("registry.example.com/shop/service-%d:2026.11.21-abcdef0", i),
		Command: []string{"/bin/service"}, Args: []string{"--listen=:8080", "--config=/etc/service/config.yaml", "--log-level=info"},
		ImagePullPolicy: v1.PullIfNotPresent, TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: v1.TerminationMessageReadFile,
		Resources: v1.ResourceRequirements{Requests: amounts("250m", "512Mi"), Limits: amounts("2", "1Gi")},
		Ports:     []v1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: v1.ProtocolTCP}, {Name: "metrics", ContainerPort: 9090, Protocol: v1.ProtocolTCP}},
		SecurityContext: &v1.SecurityContext{
			RunAsNonRoot: ptr(true), ReadOnlyRootFilesystem: ptr(true), AllowPrivilegeEscalation: ptr(false),
			Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}},
		},
		LivenessProbe: probe("/livez"), ReadinessProbe: probe("/readyz"),
		VolumeMounts: []v1.VolumeMount{
			{Name: "config", MountPath: "/etc/service", ReadOnly: true}, {Name: "tmp", MountPath: "/tmp"},
			{Name: "kube-api-access-abcde", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
		},
	}
	for j := range 14 {
		container.Env = append(container.Env, v1.EnvVar{Name: fmt.Sprintf("SERVICE_SETTING_%02d", j), Value: fmt.Sprintf("https://backend-%02d.shop.svc.cluster.local:8443", j)})
	}
	return container
}

func productionPod() *v1.Pod {
	app := map[string]string{"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": "web-eu", "pod-template-hash": "5d8c7f6b9", "team": "shop", "tier": "front"}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": "web"}}
	notes := map[string]string{
		"prometheus.io/scrape": "true", "prometheus.io/port": "9090", "sidecar.istio.io/status": strings.Repeat(`{"initContainers":["istio-init"]}`, 8),
		"checksum/config": strings.Repeat("0123456789abcdef", 4),
	}
	pod := smallPod()
	pod.ObjectMeta = meta("web-5d8c7f6b9-x2x9p", app, notes, managed("kube-controller-manager", 16), managed("kubelet", 12))
	pod.Spec.NodeName = "ip-10-0-12-34.eu-central-1.compute.internal"
	pod.Spec.NodeSelector = map[string]string{"kubernetes.io/os": "linux"}
	pod.Spec.InitContainers = []v1.Container{productionContainer(9)}
	pod.Spec.Containers = []v1.Container{productionContainer(0), productionContainer(1)}
	pod.Spec.Affinity = &v1.Affinity{
		PodAntiAffinity: &v1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{
			{Weight: 100, PodAffinityTerm: v1.PodAffinityTerm{LabelSelector: selector, TopologyKey: v1.LabelHostname}},
		}},
	}
	pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{
		{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.ScheduleAnyway, LabelSelector: selector},
	}
	config := &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "web-config"}, DefaultMode: ptr(int32(420))}
	token := v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{ExpirationSeconds: ptr(int64(3607)), Path: "token"}}
	pod.Spec.Volumes = []v1.Volume{
		{Name: "config", VolumeSource: v1.VolumeSource{ConfigMap: config}},
		{Name: "tmp", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		{Name: "kube-api-access-abcde", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{token}}}},
	}
	at := metav1.NewTime(time.Unix(1_790_000_060, 0))
	pod.Status = v1.PodStatus{Phase: v1.PodRunning, HostIP: "10.0.12.34", PodIP: "10.1.2.3", StartTime: &at, QOSClass: v1.PodQOSBurstable}
	for _, condition := range []v1.PodConditionType{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: condition, Status: v1.ConditionTrue, LastTransitionTime: at})
	}
	for i := range 2 {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, v1.ContainerStatus{
			Name: fmt.Sprintf("container-%d", i), Ready: true, Started: ptr(true), State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at}},
			Image: fmt.Sprintf("registry.example.com/shop/service-%d:2026.11.21-abcdef0", i), ImageID: "sha256:" + strings.Repeat("0123456789abcdef", 4),
			ContainerID: "containerd://" + strings.Repeat("fedcba9876543210", 4), AllocatedResources: amounts("250m", "512Mi"),
			Resources: &v1.ResourceRequirements{Requests: amounts("250m", "512Mi"), Limits: amounts("2", "1Gi")},
		})
	}
	return pod
}
