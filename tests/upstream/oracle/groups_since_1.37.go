//go:build !kube1.34 && !kube1.35 && !kube1.36

package main

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// What is recorded of pod groups from 1.37 on, where the group is the entry of the queue.

var groupGates = []string{"GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup", "PodGroupPreemptionPolicy"}

// numbersPatches says that patches change resource versions, so that the queue sees them.
const numbersPatches = true

// spiedQueue notes the status with which a group comes back.
type spiedQueue struct {
	internalqueue.SchedulingQueue
	cluster *groupCluster
}

func (q *spiedQueue) AddAttemptedPodGroupIfNeeded(logger klog.Logger, group *framework.QueuedPodGroupInfo, cycle int64, status *fwk.Status) error {
	q.cluster.cycle.status = status
	return q.SchedulingQueue.AddAttemptedPodGroupIfNeeded(logger, group, cycle, status)
}

func (g *groupCluster) spyQueue() {
	g.sched.SchedulingQueue = &spiedQueue{g.sched.SchedulingQueue, g}
	next := g.sched.NextEntity
	g.sched.NextEntity = func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		entity, err := next(logger)
		if group, ok := entity.(*framework.QueuedPodGroupInfo); ok {
			g.cycle.group = group.GetNamespace() + "/" + group.GetName()
		}
		return entity, err
	}
}

// RunPlacementFeasiblePlugins notes the verdict. The first one of a run comes before the first member.
func (f *spiedFramework) RunPlacementFeasiblePlugins(ctx context.Context, state fwk.PlacementCycleState, group fwk.PodGroupInfo, progress framework.PlacementProgress) *fwk.Status {
	status := f.Framework.RunPlacementFeasiblePlugins(ctx, state, group, progress)
	if c := f.cluster.cycle; !c.searching {
		if progress.Remaining == len(group.GetUnscheduledPods()) {
			c.runs = append(c.runs, &spiedRun{members: map[types.UID]*memberAnswer{}})
		}
		c.runs[len(c.runs)-1].verdict = status
	}
	return status
}

func (f *spiedFramework) RunPlacementScorePlugins(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, placements []*fwk.PodGroupAssignments, states []fwk.PlacementCycleState) ([]fwk.PlacementPluginScores, *fwk.Status) {
	scores, status := f.Framework.RunPlacementScorePlugins(ctx, state, group, placements, states)
	f.cluster.cycle.scored(scores)
	return scores, status
}

func (f *spiedFramework) RunPodGroupPostFilterPlugins(ctx context.Context, state *framework.CycleState, group fwk.PodGroupInfo, decide fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	f.cluster.cycle.searching = true
	result, status := f.Framework.RunPodGroupPostFilterPlugins(ctx, state, group, decide)
	f.cluster.cycle.searching = false
	f.cluster.cycle.preemption = status
	return result, status
}

// refusedAsPod says whether the cycle is reported as that of the pod that was popped.
func refusedAsPod(*spiedCycle) bool { return false }

// outcome is the result of the group's cycle, and the status of the group.
func (g *groupCluster) outcome() (result, status string) {
	c := g.cycle
	switch {
	case c.preemption.IsError():
		return "error", c.preemption.AsError().Error()
	case c.status.IsSuccess():
		return "scheduled", c.status.Message()
	case !c.status.IsRejected():
		return "error", c.status.AsError().Error()
	case c.preemption != nil && c.preemption.IsSuccess():
		return "waiting", c.status.Message()
	}
	return "unschedulable", c.status.Message()
}

// outcome is what the latest verdict of the run means for the group.
func (r *spiedRun) outcome() (code, status string) {
	if r.verdict.IsSuccess() {
		return fwk.Success.String(), ""
	}
	reasons := append([]string{"pod group is unschedulable"}, r.verdict.Reasons()...)
	return fwk.Unschedulable.String(), strings.Join(reasons, ", ")
}

func (g *groupCluster) queues() map[string][]*v1.Pod {
	queue := g.sched.SchedulingQueue
	return map[string][]*v1.Pod{
		"active": queue.PodsInActiveQ(), "backoff": queue.PodsInBackoffQ(), "unschedulable": queue.UnschedulablePods(),
		"pending": queue.PendingPodGroupPods(), "incomplete": queue.IncompletePodGroupPodsPods(),
	}
}

// gatingPlugin is the plugin that gates the pod or its group, and whether it gates the pod itself.
func (g *groupCluster) gatingPlugin(pod *v1.Pod) (plugin string, own bool) {
	queue := g.sched.SchedulingQueue
	info, ok := queue.GetPod(pod.Name, pod.Namespace, pod.Spec.SchedulingGroup)
	if !ok {
		return "", false
	}
	if name := pod.Spec.SchedulingGroup; name != nil {
		if group, ok := queue.GetPodGroup(*name.PodGroupName, pod.Namespace, fwk.PodGroupKeyType); ok {
			if group.GatingPlugin == "" {
				return "", false
			}
			if info.GatingPlugin == "" {
				return group.GatingPlugin, false
			}
		}
	}
	return info.GatingPlugin, true
}

func topologyKeys(object runtime.Object) int {
	constraints := object.(*schedulingv1beta1.PodGroup).Spec.SchedulingConstraints
	if constraints == nil {
		return 0
	}
	return len(constraints.Topology)
}

func groupCondition(object runtime.Object) *conditionAnswer {
	conditions := object.(*schedulingv1beta1.PodGroup).Status.Conditions
	if len(conditions) == 0 {
		return nil
	}
	it := conditions[0]
	return &conditionAnswer{Type: it.Type, Status: string(it.Status), Reason: it.Reason, Message: it.Message}
}
