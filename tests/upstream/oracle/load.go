package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

const hostname, zone = "kubernetes.io/hostname", "topology.kubernetes.io/zone"

// load is a cluster of equal nodes and pods of one kind, whose decisions are timed.
type load struct {
	workload                          string
	nodes, existing, pods, signatures int
	percentage                        int
	scenario                          string
	print                             bool
}

func defaultLoad() *load {
	return &load{workload: "basic", nodes: 5000, pods: 1000, signatures: 1}
}

func (l *load) register(flags *flag.FlagSet) {
	flags.StringVar(&l.workload, "workload", l.workload, strings.Join(workloadNames(), ", "))
	flags.IntVar(&l.nodes, "nodes", l.nodes, "nodes of the cluster")
	flags.IntVar(&l.existing, "existing", l.existing, "pods that run already, spread over the nodes in turn")
	flags.IntVar(&l.pods, "pods", l.pods, "pods to decide on")
	flags.IntVar(&l.signatures, "signatures", l.signatures, "K: pod i asks for (100 + i mod K)m of cpu")
	flags.IntVar(&l.percentage, "pct", l.percentage, "percentageOfNodesToScore; 0 is upstream's adaptive rule")
	flags.StringVar(&l.scenario, "scenario", "", "decide on the pods of the scenario in this file instead")
	flags.BoolVar(&l.print, "print", false, "print the objects and pods, one a line, and decide nothing")
}

// workloads are what a pod of each asks for, given the selector of its own app.
var workloads = map[string]func(*v1.PodSpec, *metav1.LabelSelector){
	"basic": func(*v1.PodSpec, *metav1.LabelSelector) {},
	"soft-anti": func(spec *v1.PodSpec, app *metav1.LabelSelector) {
		term := v1.WeightedPodAffinityTerm{Weight: 100, PodAffinityTerm: v1.PodAffinityTerm{LabelSelector: app, TopologyKey: hostname}}
		spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{term}}}
	},
	"hard-anti": func(spec *v1.PodSpec, app *metav1.LabelSelector) {
		term := v1.PodAffinityTerm{LabelSelector: app, TopologyKey: hostname}
		spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}}}
	},
	"zone-affinity": func(spec *v1.PodSpec, app *metav1.LabelSelector) {
		term := v1.PodAffinityTerm{LabelSelector: app, TopologyKey: zone}
		spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}}}
	},
	"spread": func(spec *v1.PodSpec, app *metav1.LabelSelector) {
		spec.TopologySpreadConstraints = spread(app, v1.DoNotSchedule)
	},
	"soft-spread": func(spec *v1.PodSpec, app *metav1.LabelSelector) {
		spec.TopologySpreadConstraints = spread(app, v1.ScheduleAnyway)
	},
	"node-affinity": func(spec *v1.PodSpec, _ *metav1.LabelSelector) {
		ssd := v1.NodeSelectorRequirement{Key: "disk", Operator: v1.NodeSelectorOpIn, Values: []string{"ssd"}}
		terms := []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{ssd}}}
		spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms}}}
	},
}

func spread(app *metav1.LabelSelector, overZones v1.UnsatisfiableConstraintAction) []v1.TopologySpreadConstraint {
	return []v1.TopologySpreadConstraint{
		{MaxSkew: 1, TopologyKey: zone, WhenUnsatisfiable: overZones, LabelSelector: app},
		{MaxSkew: 1, TopologyKey: hostname, WhenUnsatisfiable: v1.ScheduleAnyway, LabelSelector: app},
	}
}

func workloadNames() []string {
	names := make([]string, 0, len(workloads))
	for name := range workloads {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func node(i int) *v1.Node {
	name := fmt.Sprintf("node-%05d", i)
	has := v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("32"), v1.ResourceMemory: resource.MustParse("256Gi"),
		v1.ResourcePods: resource.MustParse("110"), v1.ResourceEphemeralStorage: resource.MustParse("500Gi"),
	}
	labels := map[string]string{
		hostname: name, zone: fmt.Sprintf("zone-%d", i%3), "topology.kubernetes.io/region": "r1", "disk": []string{"ssd", "hdd"}[i%2],
	}
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Status: v1.NodeStatus{Capacity: has, Allocatable: has}}
}

// pod is the i-th of the cluster; those that run already have the first numbers.
func (l *load) pod(i int) *v1.Pod {
	app := fmt.Sprintf("app-%d", i%50)
	name := fmt.Sprintf("%s-%06d", l.workload, i)
	cpu := *resource.NewMilliQuantity(int64(100+i%l.signatures), resource.DecimalSI)
	asks := v1.ResourceList{v1.ResourceCPU: cpu, v1.ResourceMemory: resource.MustParse("500Mi")}
	container := v1.Container{Name: "c", Image: "registry.k8s.io/pause:3.10", Resources: v1.ResourceRequirements{Requests: asks}}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "load", UID: types.UID(name), Labels: map[string]string{"app": app, "w": l.workload}},
		Spec:       v1.PodSpec{SchedulerName: v1.DefaultSchedulerName, Containers: []v1.Container{container}},
	}
	workloads[l.workload](&pod.Spec, &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}})
	if i < l.existing {
		pod.Name, pod.UID, pod.Spec.NodeName = "e-"+pod.Name, pod.UID+"e", fmt.Sprintf("node-%05d", i%l.nodes)
	}
	return pod
}

// contents is the cluster, and the pods to decide on.
func (l *load) contents() (*contents, error) {
	if l.scenario != "" {
		return l.read()
	}
	if workloads[l.workload] == nil {
		return nil, fmt.Errorf("no workload %q; there are %s", l.workload, strings.Join(workloadNames(), ", "))
	}
	if l.nodes < 1 || l.pods < 1 || l.signatures < 1 || l.existing < 0 {
		return nil, errors.New("nodes, pods and signatures must be at least 1, existing at least 0")
	}
	c := &contents{}
	for i := range l.nodes {
		c.objects = append(c.objects, node(i))
	}
	for i := range l.existing {
		c.objects = append(c.objects, l.pod(i))
	}
	for i := range l.pods {
		c.pods = append(c.pods, l.pod(l.existing+i))
	}
	return c, nil
}

// read takes cluster and pods from a file of a scenario, whose name is then the workload's.
func (l *load) read() (*contents, error) {
	text, err := os.ReadFile(l.scenario)
	if err != nil {
		return nil, err
	}
	scenario, err := parse(text)
	if err != nil {
		return nil, err
	}
	c, err := scenario.decode()
	if err != nil {
		return nil, err
	}
	// Pods that wait are told of one by one, as those of a workload are.
	c.objects = c.objects[:len(scenario.Objects)]
	l.workload, l.nodes, l.existing, l.pods = scenario.Name, 0, 0, len(c.pods)
	for _, object := range c.objects {
		switch object.(type) {
		case *v1.Node:
			l.nodes++
		case *v1.Pod:
			l.existing++
		}
	}
	return c, nil
}

func (l *load) run(out io.Writer) error {
	c, err := l.contents()
	if err != nil {
		return err
	}
	if l.print {
		return c.print(out)
	}
	percentage := int32(l.percentage)
	w, err := newWorld(c.objects, nil, scheduler.WithPercentageOfNodesToScore(&percentage))
	if err != nil {
		return err
	}
	defer w.close()
	// Devices are reserved and claims written as in a cluster, in memory.
	w.writes = c.hasDevices()
	runtime.GC()
	scheduled, each := 0, make([]float64, 0, l.pods)
	cpu, began := cpuSeconds(), time.Now()
	for _, pod := range c.pods {
		placed, took, err := w.schedule(pod, time.Now())
		if err != nil {
			return err
		}
		scheduled += placed
		each = append(each, took.Seconds()*1e6)
	}
	elapsed := time.Since(began).Seconds()
	cpu = cpuSeconds() - cpu
	slices.Sort(each)
	return json.NewEncoder(out).Encode(map[string]any{
		"impl": "kube-scheduler " + version() + " (in process)", "workload": l.workload, "nodes": l.nodes, "existing": l.existing, "pods": l.pods,
		"signatures": l.signatures, "pct": l.percentage, "scheduled": scheduled, "pods_per_s": float64(l.pods) / elapsed,
		"cpu_us_per_pod": cpu * 1e6 / float64(l.pods), "p50_us": each[len(each)/2], "p99_us": each[len(each)*99/100],
	})
}

// print writes objects and pods, one a line, as upstream's types have them.
func (c *contents) print(out io.Writer) error {
	encoder := json.NewEncoder(out)
	for _, object := range c.objects {
		if err := encoder.Encode(object); err != nil {
			return err
		}
	}
	for _, pod := range c.pods {
		if err := encoder.Encode(pod); err != nil {
			return err
		}
	}
	return nil
}

// schedule has upstream's own function decide on the pod, and counts it where it goes. The time is that of the decision alone.
func (w *world) schedule(pod *v1.Pod, start time.Time) (placed int, took time.Duration, err error) {
	if err := w.sched.Cache.UpdateSnapshot(w.log, w.snapshot); err != nil {
		return 0, 0, err
	}
	state := framework.NewCycleState()
	host, err := w.suggest(state, pod)
	took = time.Since(start)
	if err != nil {
		return 0, took, nil // no node for it is an answer too
	}
	if w.writes {
		return 1, took, w.place(&cycle{world: w, framework: w.fallback, state: state, pod: pod}, host)
	}
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = host
	return 1, took, w.sched.Cache.AssumePod(w.log, assumed)
}

func cpuSeconds() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return float64(used.Utime.Sec+used.Stime.Sec) + float64(used.Utime.Usec+used.Stime.Usec)/1e6
}
