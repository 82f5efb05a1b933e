package main

import (
	"fmt"
	"sort"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Upstream settles preemption's last tie by chance. So many tries show whether there is one, and so many which nodes it is between.
const tries, triesOfTie = 16, 64

// cycle is one decision on its way.
type cycle struct {
	*world
	framework framework.Framework
	state     fwk.CycleState
	pod       *v1.Pod
	diagnosis framework.Diagnosis
	told      Decision
}

// decide says what upstream says of the pod, and counts the pod where it goes.
func (w *world) decide(pod *v1.Pod) (Decision, error) {
	if err := w.sched.Cache.UpdateSnapshot(w.log, w.snapshot); err != nil {
		return Decision{}, err
	}
	c := &cycle{world: w, framework: w.profile(pod), state: framework.NewCycleState(), pod: pod}
	c.diagnosis.NodeToStatus = framework.NewDefaultNodeToStatus()
	c.told.Pod = pod.Namespace + "/" + pod.Name
	nodes, err := w.snapshot.NodeInfos().List()
	if err != nil {
		return Decision{}, err
	}
	if len(nodes) == 0 {
		c.told.Message = scheduler.ErrNoNodesAvailable.Error()
		return c.told, nil
	}
	feasible, failed := c.filter(nodes)
	switch {
	case failed != nil:
		c.fail(failed)
	case len(feasible) == 0:
		unfit := framework.FitError{Pod: pod, NumAllNodes: len(nodes), Diagnosis: c.diagnosis}
		c.told.Message = unfit.Error()
		c.preempt()
	default:
		if failed := c.score(feasible); failed != nil {
			c.fail(failed)
			break
		}
		if err := w.place(c, c.told.Selected); err != nil {
			return Decision{}, err
		}
	}
	return c.told, nil
}

// fail ends the decision with an error, which is all that is told of it, save for PreFilter's own entry.
func (c *cycle) fail(status *fwk.Status) {
	c.told = Decision{Pod: c.told.Pod, PreFilter: c.told.PreFilter, Message: status.AsError().Error(), Messages: c.told.Messages}
}

// filter returns the nodes that pass, by name. A status is returned when the decision ends with an error.
func (c *cycle) filter(nodes []fwk.NodeInfo) ([]fwk.NodeInfo, *fwk.Status) {
	narrowed, status, plugins := c.framework.RunPreFilterPlugins(c.ctx, c.state, c.pod)
	c.diagnosis.UnschedulablePlugins = plugins
	if !status.IsSuccess() {
		told := verdict(status)
		c.told.PreFilter = &told
		if !status.IsRejected() {
			return nil, status
		}
		c.diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
		c.diagnosis.PreFilterMsg = status.Message()
		c.diagnosis.AddPluginStatus(status)
		return nil, nil
	}
	if !narrowed.AllNodes() {
		absent := fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(plugins))
		c.diagnosis.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, absent))
	}
	// Upstream's order is by zone and its workers race; of several errors the first by name is as good as any.
	byName := append([]fwk.NodeInfo{}, nodes...)
	sort.Slice(byName, func(i, j int) bool { return byName[i].Node().Name < byName[j].Node().Name })
	c.told.Rejected = map[string]Verdict{}
	var feasible []fwk.NodeInfo
	var failed *fwk.Status
	errors := map[string]bool{}
	for _, node := range byName {
		name := node.Node().Name
		if !narrowed.AllNodes() && !narrowed.NodeNames.Has(name) {
			continue
		}
		status := c.framework.RunFilterPluginsWithNominatedPods(c.ctx, c.state, c.pod, node)
		switch {
		case status.IsSuccess():
			feasible = append(feasible, node)
			c.told.Feasible = append(c.told.Feasible, name)
		case status.IsRejected():
			c.diagnosis.NodeToStatus.Set(name, status)
			c.diagnosis.AddPluginStatus(status)
			c.told.Rejected[name] = verdict(status)
		default:
			// Upstream ends the decision here, with the error of whichever node came first.
			if failed == nil {
				failed = status
			}
			errors[status.AsError().Error()] = true
		}
	}
	if len(errors) > 1 {
		c.told.Messages = sortedKeys(errors)
	}
	return feasible, failed
}

// score scores the nodes, a single one too, and chooses the best; of equals the one with the smallest name.
func (c *cycle) score(feasible []fwk.NodeInfo) *fwk.Status {
	if status := c.framework.RunPreScorePlugins(c.ctx, c.state, c.pod, feasible); !status.IsSuccess() {
		return status
	}
	scored, status := c.framework.RunScorePlugins(c.ctx, c.state, c.pod, feasible)
	if !status.IsSuccess() {
		return status
	}
	c.told.Scores, c.told.Totals = map[string]map[string]int64{}, map[string]int64{}
	for _, node := range scored {
		byPlugin := map[string]int64{}
		if node.Name == "" {
			// A plugin panicked on this node. Upstream ends the wait for its goroutine before it counts the panic.
			panic("while scoring")
		}
		for _, plugin := range node.Scores {
			byPlugin[plugin.Name] = plugin.Score
		}
		c.told.Scores[node.Name], c.told.Totals[node.Name] = byPlugin, node.TotalScore
	}
	for _, name := range c.told.Feasible {
		if c.told.Selected == "" || c.told.Totals[name] > c.told.Totals[c.told.Selected] {
			c.told.Selected = name
		}
	}
	return nil
}

// preempt tells what PostFilter adds to the message, the nodes it nominates and whom it deletes there. Nothing of it stays.
func (c *cycle) preempt() {
	if !c.framework.HasPostFilterPlugins() {
		return
	}
	c.takeFreed()
	restore := c.keepUnavailable()
	defer func() { c.told.Deallocates, c.told.Deletes = c.takeFreed() }()
	for try := 0; try < tries || (len(c.told.Preemption) > 1 || c.hasFreed()) && try < triesOfTie; try++ {
		c.takeVictims()
		restore()
		result, status := c.framework.RunPostFilterPlugins(c.ctx, c.state, c.pod, c.diagnosis.NodeToStatus)
		if text := status.Message(); try == 0 {
			c.told.PostFilter = &text
		}
		if !status.IsSuccess() || result == nil || result.NominatingInfo == nil || result.NominatedNodeName == "" {
			if c.hasFreed() {
				continue
			}
			return
		}
		if c.told.Preemption == nil {
			c.told.Preemption = map[string][]string{}
		}
		c.told.Preemption[result.NominatedNodeName] = c.takeVictims()
	}
}

// verdict tells a status. Reasons are sorted, since upstream's order may be that of a map.
func verdict(status *fwk.Status) Verdict {
	reasons := append([]string{}, status.Reasons()...)
	sort.Strings(reasons)
	return Verdict{Code: status.Code().String(), Plugin: status.Plugin(), Reasons: reasons}
}
