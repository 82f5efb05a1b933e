// Command whatif-go asks `supercargo whatif serve` what Kueue and cluster-autoscaler ask their simulators.
//
//	TOKEN=$(kubectl create token default) whatif-go -server https://127.0.0.1:10269 < questions.json
//
// Standard input has the questions as JSON, and standard output gets the answers.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"os"
	"time"
)

// questions is the content of standard input.
type questions struct {
	// Nodes and Pods are the cluster to upload; without nodes, the live cluster is asked about.
	Nodes []Object
	Pods  []Object
	// Workload is a workload to schedule, and Requirements a pod whose feasible nodes are asked for.
	Workload     []Object
	Requirements Object
	// Candidates are the names of nodes that may take it.
	Candidates []string
	// Preemptible are the names of workloads in the namespace default that may be preempted.
	Preemptible []string
	// Groups are node groups, and Pending the pods that need new nodes.
	Groups  []NodeGroup
	Pending []Object
}

type answers struct {
	Feasible   []string          `json:"feasible"`
	Excluded   map[string]int    `json:"excluded"`
	AfterEvict []string          `json:"feasibleAfterPreemption"`
	AfterUndo  []string          `json:"feasibleAfterRevert"`
	Bindings   map[string]string `json:"bindings"`
	Preempted  []string          `json:"preempted"`
	ScaleUp    *ScaleUp          `json:"scaleUp"`
	// Differences counts pods that go elsewhere when the nodes are really added.
	Differences int `json:"differences"`
}

type node string

func (n node) NodeName() string { return string(n) }

func candidates(names []string) iter.Seq[Candidate] {
	return func(yield func(Candidate) bool) {
		for _, name := range names {
			if !yield(node(name)) {
				return
			}
		}
	}
}

func main() {
	server := flag.String("server", "https://127.0.0.1:10269", "URL of the server")
	ca := flag.String("ca", "", "file with the certificate authority of the server; without it, the server is not verified")
	flag.Parse()
	if err := run(*server, *ca); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(server, ca string) error {
	var asked questions
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	var authority []byte
	if ca != "" {
		var err error
		if authority, err = os.ReadFile(ca); err != nil {
			return err
		}
	}
	client, err := NewClient(server, os.Getenv("TOKEN"), authority)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	found, err := answer(ctx, client, asked)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}

func answer(ctx context.Context, client *Client, asked questions) (*answers, error) {
	simulator := NewSimulator(client, len(asked.Nodes) == 0)
	for _, pod := range asked.Pods {
		simulator.TrackPod(ctx, pod)
	}
	workload := WorkloadKey{"default", "workload"}
	simulator.AddWorkload(workload, asked.Workload)
	made, err := simulator.Snapshot(ctx, asked.Nodes)
	if err != nil {
		return nil, err
	}
	snapshot := made.(*Snapshot)
	defer snapshot.Close(ctx)
	found := &answers{}
	stats := &NodeExclusionStats{}
	feasible := func() ([]string, error) {
		matched, err := made.FindFeasibleNodes(ctx, candidates(asked.Candidates), &PodRequirements{asked.Requirements}, stats)
		names := []string{}
		for _, candidate := range matched {
			names = append(names, candidate.NodeName())
		}
		return names, err
	}
	if asked.Requirements != nil {
		if found.Feasible, err = feasible(); err != nil {
			return nil, err
		}
		found.Excluded = stats.ByReason
	}
	preemptible := []WorkloadKey{}
	for _, name := range asked.Preemptible {
		preemptible = append(preemptible, WorkloadKey{"default", name})
	}
	if len(preemptible) > 0 {
		revert, err := made.PreemptWorkload(ctx, preemptible[0])
		if err != nil {
			return nil, err
		}
		if found.AfterEvict, err = feasible(); err != nil {
			return nil, err
		}
		if err := revert(); err != nil {
			return nil, err
		}
		if found.AfterUndo, err = feasible(); err != nil {
			return nil, err
		}
	}
	if len(asked.Workload) > 0 {
		result, targets, err := made.ScheduleWorkload(ctx, workload, preemptible, nil)
		if err != nil {
			return nil, err
		}
		found.Bindings = result.Bindings
		for _, target := range targets.Targets {
			found.Preempted = append(found.Preempted, target.Name)
		}
	}
	if len(asked.Groups) > 0 {
		autoscaler := Autoscaler{snapshot.fork}
		if found.ScaleUp, err = autoscaler.Simulate(ctx, asked.Groups, asked.Pending, 1000); err != nil {
			return nil, err
		}
		if len(asked.Pending) > 0 {
			found.Differences, err = autoscaler.Verify(ctx, asked.Groups, asked.Pending, found.ScaleUp)
		}
	}
	return found, err
}
