package main

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"sort"
	"strings"
	"sync"
)

// The interfaces below have the shape of Kueue's SchedulingSimulator (kubernetes-sigs/kueue, pkg/simulator), with plain
// types in place of Kueue's and Kubernetes' own, so that this example needs the standard library only.

// WorkloadKey is the namespace and name of a workload.
type WorkloadKey struct{ Namespace, Name string }

// Candidate is a node that may be chosen.
type Candidate interface{ NodeName() string }

// MatchedCandidate is a candidate that is feasible.
type MatchedCandidate struct{ Candidate }

// PodRequirements are those of each pod of a set.
type PodRequirements struct{ Pod Object }

// NodeExclusionStats counts the nodes that are not feasible, by reason.
type NodeExclusionStats struct{ ByReason map[string]int }

// SchedulingResult has the node of each pod.
type SchedulingResult struct{ Bindings map[string]string }

// PreemptionResult has the workloads that must be preempted.
type PreemptionResult struct{ Targets []WorkloadKey }

// SchedulingSimulator makes snapshots of the cluster.
type SchedulingSimulator interface {
	Snapshot(ctx context.Context, nodes []Object) (SimulatorSnapshot, error)
	TrackPod(ctx context.Context, pod Object)
	UntrackPod(ctx context.Context, key WorkloadKey)
}

// SimulatorSnapshot simulates on a snapshot.
type SimulatorSnapshot interface {
	Simulate(ctx context.Context, fn func() error) error
	FindFeasibleNodes(ctx context.Context, candidates iter.Seq[Candidate], requirements *PodRequirements,
		stats *NodeExclusionStats) ([]MatchedCandidate, error)
	PreemptWorkload(ctx context.Context, key WorkloadKey) (revert func() error, err error)
	ScheduleWorkload(ctx context.Context, key WorkloadKey, candidates, preempted []WorkloadKey) (SchedulingResult,
		PreemptionResult, error)
}

// workloadAnnotation names the workload of a pod, as Kueue does.
const workloadAnnotation = "kueue.x-k8s.io/workload"

// Simulator implements SchedulingSimulator with the server. If live is set, its snapshots are forks of the live cluster,
// which the server itself keeps current; otherwise it uploads the nodes and the tracked pods.
type Simulator struct {
	client *Client
	live   bool

	mutex sync.Mutex
	// pods are the tracked pods by namespace and name.
	pods map[WorkloadKey]Object
	// pending are the pods of workloads that are not in the cluster yet.
	pending map[WorkloadKey][]Object
}

var _ SchedulingSimulator = &Simulator{}

// NewSimulator returns a simulator that tracks no pod yet.
func NewSimulator(client *Client, live bool) *Simulator {
	return &Simulator{client: client, live: live, pods: map[WorkloadKey]Object{}, pending: map[WorkloadKey][]Object{}}
}

// AddWorkload tells the pods, with their PodGroup if there is one, that ScheduleWorkload places.
func (s *Simulator) AddWorkload(key WorkloadKey, objects []Object) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.pending[key] = objects
}

// TrackPod notes a pod that runs on a node.
func (s *Simulator) TrackPod(_ context.Context, pod Object) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.pods[keyOf(pod)] = pod
}

// UntrackPod notes that a pod is gone.
func (s *Simulator) UntrackPod(_ context.Context, key WorkloadKey) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.pods, key)
}

// Snapshot returns a snapshot of these nodes with the tracked pods, or of the live cluster.
func (s *Simulator) Snapshot(ctx context.Context, nodes []Object) (SimulatorSnapshot, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	snapshot := &Snapshot{workloads: map[WorkloadKey][]string{}, pending: map[WorkloadKey][]Object{}}
	objects := append([]Object{}, nodes...)
	for key, pod := range s.pods {
		objects = append(objects, pod)
		if workload := workloadOf(pod); workload.Name != "" {
			snapshot.workloads[workload] = append(snapshot.workloads[workload], key.Namespace+"/"+key.Name)
		}
	}
	for key, pods := range s.pending {
		snapshot.pending[key] = pods
	}
	of := "live"
	if !s.live {
		var err error
		if of, err = s.client.Upload(ctx, objects); err != nil {
			return nil, err
		}
		snapshot.upload = of
	}
	var err error
	snapshot.fork, err = s.client.Fork(ctx, of)
	return snapshot, err
}

// Close deletes the fork and what was uploaded for it. The server deletes both, too, if nobody asks about them.
func (s *Snapshot) Close(ctx context.Context) error {
	if s.upload != "" {
		return s.fork.client.Do(ctx, http.MethodDelete, "snapshots/"+s.upload, nil, nil)
	}
	return s.fork.Delete(ctx)
}

// Snapshot implements SimulatorSnapshot with a fork.
type Snapshot struct {
	fork *Fork
	// upload is the id of the uploaded cluster; empty for the live one.
	upload string
	// workloads has the pods of each workload in the cluster, as namespace/name.
	workloads map[WorkloadKey][]string
	pending   map[WorkloadKey][]Object
}

var _ SimulatorSnapshot = &Snapshot{}

// Simulate runs fn, and undoes what it changed.
func (s *Snapshot) Simulate(ctx context.Context, fn func() error) error {
	before := s.fork.changes
	err := fn()
	if undone := s.fork.UndoTo(ctx, before); err == nil {
		err = undone
	}
	return err
}

// FindFeasibleNodes returns the candidates that can take a pod now.
func (s *Snapshot) FindFeasibleNodes(ctx context.Context, candidates iter.Seq[Candidate],
	requirements *PodRequirements, stats *NodeExclusionStats) ([]MatchedCandidate, error) {
	byName, names := map[string]Candidate{}, []string{}
	for candidate := range candidates {
		byName[candidate.NodeName()] = candidate
		names = append(names, candidate.NodeName())
	}
	var answer struct {
		Nodes    []string
		Rejected []struct{ Reasons []string }
	}
	question := Object{"objects": []Object{requirements.Pod}, "nodes": names}
	if err := s.fork.ask(ctx, "feasible", question, &answer); err != nil {
		return nil, err
	}
	matched := []MatchedCandidate{}
	for _, name := range answer.Nodes {
		matched = append(matched, MatchedCandidate{byName[name]})
	}
	if stats != nil {
		stats.ByReason = map[string]int{}
		for _, node := range answer.Rejected {
			for _, reason := range node.Reasons {
				stats.ByReason[reason]++
			}
		}
	}
	return matched, nil
}

// PreemptWorkload removes the pods of a workload from their nodes. revert puts them back; changes that were made since
// must have been undone before.
func (s *Snapshot) PreemptWorkload(ctx context.Context, key WorkloadKey) (revert func() error, err error) {
	pods := s.workloads[key]
	if len(pods) == 0 {
		return nil, fmt.Errorf("workload %s/%s has no pods", key.Namespace, key.Name)
	}
	sort.Strings(pods)
	before := s.fork.changes
	if err := s.fork.Evict(ctx, pods); err != nil {
		return nil, err
	}
	return func() error {
		if s.fork.changes > before+1 {
			return fmt.Errorf("undo the %d later changes first", s.fork.changes-before-1)
		}
		return s.fork.UndoTo(ctx, before)
	}, nil
}

// ScheduleWorkload places all pods of a workload, after it removed the preempted workloads and as few of the candidates
// as necessary, in their order. The snapshot stays as it is.
func (s *Snapshot) ScheduleWorkload(ctx context.Context, key WorkloadKey, candidates,
	preempted []WorkloadKey) (SchedulingResult, PreemptionResult, error) {
	result, targets := SchedulingResult{Bindings: map[string]string{}}, PreemptionResult{}
	err := s.Simulate(ctx, func() error {
		for _, other := range preempted {
			if _, err := s.PreemptWorkload(ctx, other); err != nil {
				return err
			}
		}
		for {
			before := s.fork.changes
			placements, err := s.fork.Place(ctx, s.pending[key])
			if err != nil {
				return err
			}
			missing := ""
			for _, placed := range placements {
				if placed.Node == nil {
					missing = fmt.Sprintf("%s: %s", placed.Pod, *placed.Message)
					break
				}
				result.Bindings[placed.Pod] = *placed.Node
			}
			if missing == "" {
				return nil
			}
			if len(targets.Targets) == len(candidates) {
				return fmt.Errorf("workload %s/%s does not fit: %s", key.Namespace, key.Name, missing)
			}
			clear(result.Bindings)
			if err := s.fork.UndoTo(ctx, before); err != nil {
				return err
			}
			next := candidates[len(targets.Targets)]
			if _, err := s.PreemptWorkload(ctx, next); err != nil {
				return err
			}
			targets.Targets = append(targets.Targets, next)
		}
	})
	return result, targets, err
}

func keyOf(pod Object) WorkloadKey {
	metadata, _ := pod["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	name, _ := metadata["name"].(string)
	if namespace == "" {
		namespace = "default"
	}
	return WorkloadKey{namespace, name}
}

func workloadOf(pod Object) WorkloadKey {
	metadata, _ := pod["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	name, _ := annotations[workloadAnnotation].(string)
	if strings.TrimSpace(name) == "" {
		return WorkloadKey{}
	}
	return WorkloadKey{keyOf(pod).Namespace, name}
}
