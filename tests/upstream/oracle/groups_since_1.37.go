//go:build !kube1.34 && !kube1.35 && !kube1.36

package main

import (
	"context"

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

// AddPodGroup adds the group until it has the time of its earliest member: upstream takes that of any member that waited.
func (q *spiedQueue) AddPodGroup(logger klog.Logger, group *schedulingv1beta1.PodGroup) {
	queue := q.SchedulingQueue
	_, existed := queue.GetPodGroup(group.Name, group.Namespace, fwk.PodGroupKeyType)
	for queue.AddPodGroup(logger, group); !existed; queue.AddPodGroup(logger, group) {
		queued, ok := queue.GetPodGroup(group.Name, group.Namespace, fwk.PodGroupKeyType)
		isLater := false
		if ok {
			queued.ForEachPodInfo(func(pod *framework.QueuedPodInfo) bool {
				isLater = isLater || pod.Timestamp.Before(queued.Timestamp)
				return true
			})
		}
		if !isLater {
			return
		}
		queue.DeletePodGroup(logger, group)
	}
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
	status = r.verdict.Message()
	if r.verdict.IsWait() || len(r.order) == 0 {
		status = "pod group is unschedulable, " + status
	}
	return fwk.Unschedulable.String(), status
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

// keepStatus gives the new state of a group the status of the old one, as an update of the main resource does.
func keepStatus(old, object runtime.Object) {
	if group, ok := old.(*schedulingv1beta1.PodGroup); ok {
		object.(*schedulingv1beta1.PodGroup).Status = group.Status
	}
}

func groupCondition(object runtime.Object) *conditionAnswer {
	conditions := object.(*schedulingv1beta1.PodGroup).Status.Conditions
	if len(conditions) == 0 {
		return nil
	}
	it := conditions[0]
	return &conditionAnswer{Type: it.Type, Status: string(it.Status), Reason: it.Reason, Message: it.Message}
}
