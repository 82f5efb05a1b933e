//go:build !kube1.34 && !kube1.35

package main

import (
	"context"
	"slices"
	"sort"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// tieSteps spreads scores, so that what is subtracted for the name decides between equal ones only.
const tieSteps = 1 << 20

// spiedCycle is what is seen of one cycle.
type spiedCycle struct {
	// group is the name of the group that is scheduled; empty for an ordinary pod.
	group string
	// runs are the runs of the group algorithm, one per placement, without those that look for victims.
	runs       []*spiedRun
	submitted  []memberAnswer
	bound      bool
	failed     *fwk.Status
	status     *fwk.Status
	preemption *fwk.Status
	placements []placementAnswer
	victims    []string
	// generated says that placements were asked for.
	generated bool
	// searching says that victims are being looked for.
	searching bool
}

// spiedRun is one run of the group algorithm: what was found for each member.
type spiedRun struct {
	members map[types.UID]*memberAnswer
	order   []*memberAnswer
	// verdict is the latest of the group, if upstream says it after each member.
	verdict *fwk.Status
}

func podName(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

// spiedFramework is a profile whose answers are noted, and whose ties are broken by name.
type spiedFramework struct {
	framework.Framework
	cluster *groupCluster
}

// spy puts itself between the scheduler's cycle and the profiles, the queue and the handler of failures.
func (g *groupCluster) spy() {
	for name, profile := range g.sched.Profiles {
		g.sched.Profiles[name] = &spiedFramework{profile, g}
	}
	g.spyQueue()
	decide := g.sched.SchedulePod
	g.sched.SchedulePod = func(ctx context.Context, profile framework.Framework, state fwk.CycleState, pod *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		member := g.cycle.begin(pod.Pod, state)
		result, err := decide(ctx, profile, state, pod)
		member.Node, member.Code = result.SuggestedHost, fwk.Success.String()
		if err != nil {
			member.Code = fwk.Unschedulable.String()
		}
		return result, err
	}
	fail := g.sched.FailureHandler
	g.sched.FailureHandler = func(ctx context.Context, profile framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominated *fwk.NominatingInfo, start time.Time) {
		g.clock.Step(tick)
		g.cycle.submitted = append(g.cycle.submitted, memberAnswer{Pod: podName(pod.Pod), Code: status.Code().String(), Message: status.Message()})
		g.cycle.failed = status
		uid := pod.Pod.UID
		fail(ctx, profile, pod, status, nominated, start)
		g.lock.Lock()
		defer g.lock.Unlock()
		delete(g.binding, uid)
	}
}

// begin notes that the algorithm looks for a node for the pod.
func (c *spiedCycle) begin(pod *v1.Pod, state fwk.CycleState) *memberAnswer {
	member := &memberAnswer{Pod: podName(pod)}
	if c.searching {
		return member
	}
	if len(c.runs) == 0 || c.runs[len(c.runs)-1].members[pod.UID] != nil {
		c.runs = append(c.runs, &spiedRun{members: map[types.UID]*memberAnswer{}})
	}
	run := c.runs[len(c.runs)-1]
	run.members[pod.UID] = member
	run.order = append(run.order, member)
	return member
}

// current is what the algorithm found for the pod in its latest run; nil while victims are looked for.
func (c *spiedCycle) current(pod *v1.Pod) *memberAnswer {
	if c.searching || len(c.runs) == 0 {
		return nil
	}
	return c.runs[len(c.runs)-1].members[pod.UID]
}

func (f *spiedFramework) RunScorePlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) ([]fwk.NodePluginScores, *fwk.Status) {
	scores, status := f.Framework.RunScorePlugins(ctx, state, pod, nodes)
	if f.cluster.timed {
		return scores, status
	}
	var names []string
	for _, node := range scores {
		names = append(names, node.Name)
	}
	sort.Strings(names)
	for i := range scores {
		scores[i].TotalScore = scores[i].TotalScore*tieSteps - int64(slices.Index(names, scores[i].Name))
	}
	return scores, status
}

// RunPostFilterPlugins asks many times, as upstream takes any of equal nodes, and keeps the answer with the smallest name.
func (f *spiedFramework) RunPostFilterPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	g := f.cluster
	if g.cycle.searching {
		return f.Framework.RunPostFilterPlugins(ctx, state, pod, nodes)
	}
	before := g.takeWrites()
	g.delay(true)
	var best *fwk.PostFilterResult
	var status *fwk.Status
	var writes []groupWrite
	for try := 0; try == 0 || !g.timed && try < triesOfTie && nominated(best) != ""; try++ {
		result, told := f.Framework.RunPostFilterPlugins(ctx, state, pod, nodes)
		wrote := g.takeWrites()
		if try == 0 || nominated(result) < nominated(best) {
			best, status, writes = result, told, wrote
		}
	}
	g.delay(false)
	g.lock.Lock()
	g.writes = before
	for _, write := range writes {
		if err := g.carryOut(write); err != nil {
			panic(err)
		}
	}
	g.lock.Unlock()
	if member := g.cycle.current(pod); member != nil && status.IsSuccess() && nominated(best) != "" {
		member.Node, member.Preempt = nominated(best), true
	}
	return best, status
}

func nominated(result *fwk.PostFilterResult) string {
	if result == nil || result.NominatingInfo == nil {
		return ""
	}
	return result.NominatedNodeName
}

func (g *groupCluster) takeWrites() []groupWrite {
	g.lock.Lock()
	defer g.lock.Unlock()
	taken := g.writes
	g.writes = nil
	return taken
}

func (g *groupCluster) delay(delays bool) {
	g.lock.Lock()
	defer g.lock.Unlock()
	g.delays = delays
}

func (f *spiedFramework) RunPermitPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) (map[string]time.Duration, *fwk.Status) {
	waits, status := f.Framework.RunPermitPlugins(ctx, state, pod, node)
	g := f.cluster
	goes := status.IsSuccess() || status.IsWait()
	if state.IsPodGroupSchedulingCycle() {
		if member := g.cycle.current(pod); member != nil && goes {
			member.Permit = status.Code().String()
		} else if member != nil {
			member.Node, member.Code = "", status.Code().String()
		}
		return waits, status
	}
	if goes {
		g.lock.Lock()
		defer g.lock.Unlock()
		g.binding[pod.UID] = true
		g.cycle.bound = true
		g.cycle.submitted = append(g.cycle.submitted, memberAnswer{Pod: podName(pod), Node: node, Code: fwk.Success.String()})
	}
	return waits, status
}

func (f *spiedFramework) RunPostBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	f.Framework.RunPostBindPlugins(ctx, state, pod, node)
	f.cluster.lock.Lock()
	defer f.cluster.lock.Unlock()
	delete(f.cluster.binding, pod.UID)
}

func (f *spiedFramework) RunPlacementGeneratePlugins(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, nodes []fwk.NodeInfo) ([]*fwk.Placement, *fwk.Status) {
	placements, status := f.Framework.RunPlacementGeneratePlugins(ctx, state, group, nodes)
	for try := 0; !f.cluster.timed && try < triesOfTie && !status.IsSuccess(); try++ {
		// A text may list names in any order.
		if _, other := f.Framework.RunPlacementGeneratePlugins(ctx, state, group, nodes); other.Message() < status.Message() {
			status = other
		}
	}
	slices.SortFunc(placements, func(a, b *fwk.Placement) int { return strings.Compare(a.Name, b.Name) })
	f.cluster.cycle.generated = true
	if !f.cluster.cycle.searching {
		for _, placement := range placements {
			f.cluster.cycle.placements = append(f.cluster.cycle.placements, placementAnswer{Name: placement.Name, Nodes: len(placement.Nodes)})
		}
	}
	return placements, status
}

// scored notes the placements' scores, and breaks ties by name.
func (c *spiedCycle) scored(scores []fwk.PlacementPluginScores) {
	for i := range scores {
		at := slices.IndexFunc(c.placements, func(it placementAnswer) bool { return it.Name == scores[i].Placement.Name })
		if !c.searching && at >= 0 {
			told := &c.placements[at]
			told.Total, told.Scores = scores[i].TotalScore, map[string]int64{}
			for _, plugin := range scores[i].Scores {
				told.Scores[plugin.Name] = plugin.Score
			}
		}
		scores[i].TotalScore = scores[i].TotalScore*tieSteps - int64(at)
	}
}

// schedule has the scheduler make one cycle, waits until its Bindings are sent, and delivers what it wrote.
func (g *groupCluster) schedule() *cycleAnswer {
	g.clock.Step(tick)
	g.cycle = &spiedCycle{}
	began := cpuSeconds()
	g.sched.ScheduleOne(g.ctx)
	g.spent += time.Duration((cpuSeconds() - began) * float64(time.Second))
	g.awaitBindings()
	answer := g.answer()
	g.deliver()
	return answer
}

// awaitBindings waits until every Binding is sent, or only pods are left that wait in Permit for others.
func (g *groupCluster) awaitBindings() {
	for quiet := 0; quiet < 50; {
		g.lock.Lock()
		left := make([]types.UID, 0, len(g.binding))
		for uid := range g.binding {
			left = append(left, uid)
		}
		g.lock.Unlock()
		if len(left) == 0 {
			return
		}
		waits := func(uid types.UID) bool {
			for _, profile := range g.sched.Profiles {
				if profile.GetWaitingPod(uid) != nil {
					return true
				}
			}
			return false
		}
		if slices.ContainsFunc(left, func(uid types.UID) bool { return !waits(uid) }) {
			quiet = 0
		} else {
			quiet++
		}
		time.Sleep(200 * time.Microsecond)
	}
}

// answer describes the cycle; nil if no pod was tried.
func (g *groupCluster) answer() *cycleAnswer {
	c := g.cycle
	if len(c.submitted) == 0 {
		return nil
	}
	told := &cycleAnswer{Kind: "pod", Members: c.submitted, Victims: c.victims}
	sort.Strings(told.Victims)
	if c.group == "" || refusedAsPod(c) {
		told.Result = map[bool]string{true: "scheduled", false: "unschedulable"}[c.bound]
		if !c.bound && c.failed.IsError() {
			told.Result = "error"
		}
		g.explain(told, nil)
		return told
	}
	told.Kind, told.Group = "group", c.group
	told.Result, told.Status = g.outcome()
	if c.preemption != nil {
		told.Preemption = statusText(c.preemption)
	}
	reported := 0
	for i := range c.placements {
		if i >= len(c.runs) {
			c.placements = c.placements[:i]
			break
		}
		c.placements[i].describe(c.runs[i])
	}
	if g.hasTopology() {
		told.Placements = c.placements
	}
	if c.bound && len(c.placements) > 0 {
		reported = best(c.placements)
		if g.hasTopology() {
			told.Chosen = c.placements[reported].Name
		}
	}
	if len(c.runs) > 0 {
		g.explain(told, c.runs[reported])
	}
	return told
}

// explain adds what the algorithm found to what was submitted.
func (g *groupCluster) explain(told *cycleAnswer, run *spiedRun) {
	if run == nil && len(g.cycle.runs) > 0 {
		run = g.cycle.runs[0]
	}
	if run == nil {
		return
	}
	for i := range told.Members {
		for _, found := range run.members {
			if member := &told.Members[i]; found.Pod == member.Pod {
				member.Permit, member.Preempt = found.Permit, found.Preempt
				if member.Preempt && member.Permit == fwk.Success.String() {
					member.Permit = ""
				}
				if member.Node == "" {
					member.Node = found.Node
				}
				if found.Code == fwk.Success.String() && !found.Preempt {
					member.Code = found.Code
				}
			}
		}
	}
}

// best is the index of the placement that is taken: the highest score, or the only one that works; ties by name.
func best(placements []placementAnswer) int {
	at := -1
	for i := range placements {
		if placements[i].Code == fwk.Success.String() && (at < 0 || placements[i].Total > placements[at].Total) {
			at = i
		}
	}
	return max(at, 0)
}

// describe says what the run of the group algorithm in this placement found.
func (p *placementAnswer) describe(run *spiedRun) {
	code, status := run.outcome()
	p.Code, p.Status = code, status
	for _, member := range run.members {
		if member.Node != "" && member.Code == fwk.Success.String() {
			if p.Pods == nil {
				p.Pods = map[string]string{}
			}
			p.Pods[member.Pod] = member.Node
		}
	}
}

// hasTopology says whether the group of the cycle names a topology key.
func (g *groupCluster) hasTopology() bool {
	object := g.objects["PodGroup/"+g.cycle.group]
	return object != nil && topologyKeys(object) > 0
}

// conditionText is the message of the condition that the cycle leaves.
func (g *groupCluster) conditionText() string {
	object := g.objects["PodGroup/"+g.cycle.group]
	if object == nil {
		return ""
	}
	if condition := groupCondition(object); condition != nil && condition.Status == "False" {
		return condition.Message
	}
	return ""
}

// statusText is the code, and the message if there is one.
func statusText(status *fwk.Status) string {
	if status.Message() == "" {
		return status.Code().String()
	}
	return status.Code().String() + ": " + status.Message()
}
