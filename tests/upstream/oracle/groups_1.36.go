//go:build kube1.36

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// What is recorded of pod groups in 1.36, where pods are queued one by one.

var groupGates = []string{"GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption"}

// numbersPatches says that patches change resource versions. The recordings were made without them: updates of pods do not
// reach the queue.
const numbersPatches = false

// spiedQueue orders members that entered the active queue by one event, which upstream takes in the order of a map.
type spiedQueue struct {
	internalqueue.SchedulingQueue
	cluster *groupCluster
}

func (q *spiedQueue) PopSpecificPod(logger klog.Logger, pod *v1.Pod) *framework.QueuedPodInfo {
	return q.cluster.ordered(q.SchedulingQueue.PopSpecificPod(logger, pod))
}

func (g *groupCluster) spyQueue() {
	g.sched.SchedulingQueue = &spiedQueue{g.sched.SchedulingQueue, g}
	next := g.sched.NextPod
	g.sched.NextPod = func(logger klog.Logger) (*framework.QueuedPodInfo, error) {
		info, err := next(logger)
		if info != nil && info.Pod.Spec.SchedulingGroup != nil && utilfeature.DefaultFeatureGate.Enabled("GenericWorkload") {
			g.cycle.group = info.Pod.Namespace + "/" + *info.Pod.Spec.SchedulingGroup.PodGroupName
		}
		return g.ordered(info), err
	}
}

// ordered adds the pod's rank by creation, in nanoseconds, to the time of its first attempt.
func (g *groupCluster) ordered(info *framework.QueuedPodInfo) *framework.QueuedPodInfo {
	if info == nil || info.InitialAttemptTimestamp == nil || g.timed {
		return info
	}
	var pods []*v1.Pod
	for _, object := range g.objects {
		if pod, ok := object.(*v1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		if created := a.CreationTimestamp.Time.Compare(b.CreationTimestamp.Time); created != 0 {
			return created
		}
		return strings.Compare(podName(a), podName(b))
	})
	rank := slices.IndexFunc(pods, func(pod *v1.Pod) bool { return pod.UID == info.Pod.UID })
	at := info.InitialAttemptTimestamp.Truncate(tick).Add(time.Duration(rank))
	info.InitialAttemptTimestamp = &at
	return info
}

func (f *spiedFramework) RunPlacementScorePlugins(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, placements []*fwk.PodGroupAssignments) ([]fwk.PlacementPluginScores, *fwk.Status) {
	scores, status := f.Framework.RunPlacementScorePlugins(ctx, state, group, placements)
	f.cluster.cycle.scored(scores)
	return scores, status
}

// PodGroupPostFilterPlugins returns the plugins with what they answer noted.
func (f *spiedFramework) PodGroupPostFilterPlugins() []framework.PodGroupPostFilterPlugin {
	var spied []framework.PodGroupPostFilterPlugin
	for _, plugin := range f.Framework.PodGroupPostFilterPlugins() {
		spied = append(spied, &spiedPreemption{plugin, f.cluster})
	}
	return spied
}

type spiedPreemption struct {
	framework.PodGroupPostFilterPlugin
	cluster *groupCluster
}

func (p *spiedPreemption) PodGroupPostFilter(ctx context.Context, group *schedulingv1alpha2.PodGroup, pods []*v1.Pod, decide func(context.Context) *fwk.Status) *fwk.Status {
	p.cluster.cycle.searching = true
	status := p.PodGroupPostFilterPlugin.PodGroupPostFilter(ctx, group, pods, decide)
	p.cluster.cycle.searching = false
	if p.cluster.cycle.preemption = status; status == nil {
		p.cluster.cycle.preemption = fwk.NewStatus(fwk.Success)
	}
	return status
}

// refusedAsPod says whether the cycle is reported as that of the pod that was popped.
func refusedAsPod(c *spiedCycle) bool {
	return len(c.runs) == 0 && !c.generated && c.failed.IsError()
}

// outcome is the result of the group's cycle, and the status of the group.
func (g *groupCluster) outcome() (result, status string) {
	c := g.cycle
	if c.bound {
		return "scheduled", ""
	}
	text := g.conditionText()
	if text == "" {
		text = c.hiddenStatus()
	}
	if c.failed.IsError() {
		return "error", text
	}
	if c.preemption == nil && utilfeature.DefaultFeatureGate.Enabled("WorkloadAwarePreemption") {
		if at := strings.LastIndex(text, ", "); at >= 0 {
			c.preemption = fwk.NewStatus(fwk.Unschedulable, text[at+2:])
		}
	}
	if c.preemption != nil && c.preemption.IsSuccess() || strings.HasSuffix(text, "waiting for preemption to complete") {
		return "waiting", text
	}
	return "unschedulable", text
}

// hiddenStatus is the status of a group without a condition, or with one that stays True: upstream shows it nowhere.
func (c *spiedCycle) hiddenStatus() string {
	if c.failed.IsError() {
		const other = "failed to schedule other pod from a pod group: "
		return other + strings.TrimPrefix(c.failed.AsError().Error(), other)
	}
	text := "pod group is unschedulable"
	if len(c.runs) > 0 && c.runs[0].waits() {
		text += ", pod group is waiting for preemption to complete"
	} else if c.generated {
		text = fmt.Sprintf("0/%d placements are available, first placement status: %s", len(c.placements), text)
	}
	if c.preemption != nil && !c.preemption.IsSuccess() {
		text += ", " + c.preemption.Message()
	}
	return text
}

// outcome is what the members' Permit means for the group.
func (r *spiedRun) outcome() (code, status string) {
	for _, member := range r.members {
		if member.Permit == fwk.Success.String() {
			return fwk.Success.String(), ""
		}
	}
	return fwk.Unschedulable.String(), "pod group is unschedulable"
}

// waits says whether the latest member that completed the group came with or after one that required preemption.
func (r *spiedRun) waits() (waits bool) {
	preempts := false
	for _, member := range r.order {
		preempts = preempts || member.Preempt
		if member.Permit == fwk.Success.String() {
			waits = preempts
		}
	}
	return waits
}

func (g *groupCluster) queues() map[string][]*v1.Pod {
	queue := g.sched.SchedulingQueue
	return map[string][]*v1.Pod{
		"active": queue.PodsInActiveQ(), "backoff": queue.PodsInBackoffQ(), "unschedulable": queue.UnschedulablePods(),
	}
}

// gatingPlugin is the plugin that gates the pod.
func (g *groupCluster) gatingPlugin(pod *v1.Pod) (plugin string, own bool) {
	info, ok := g.sched.SchedulingQueue.GetPod(pod.Name, pod.Namespace)
	if !ok {
		return "", false
	}
	return info.GatingPlugin, true
}

func topologyKeys(object runtime.Object) int {
	constraints := object.(*schedulingv1alpha2.PodGroup).Spec.SchedulingConstraints
	if constraints == nil {
		return 0
	}
	return len(constraints.Topology)
}

// keepStatus gives the new state of a group the status of the old one, as an update of the main resource does.
func keepStatus(old, object runtime.Object) {
	if group, ok := old.(*schedulingv1alpha2.PodGroup); ok {
		object.(*schedulingv1alpha2.PodGroup).Status = group.Status
	}
}

func groupCondition(object runtime.Object) *conditionAnswer {
	conditions := object.(*schedulingv1alpha2.PodGroup).Status.Conditions
	if len(conditions) == 0 {
		return nil
	}
	it := conditions[0]
	return &conditionAnswer{Status: string(it.Status), Reason: it.Reason, Message: it.Message}
}
