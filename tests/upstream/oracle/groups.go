//go:build !kube1.34 && !kube1.35

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// groupScenario is a cluster with pod groups, and what happens in it step by step.
type groupScenario struct {
	Name string `json:"name"`
	// Version is the minor version of upstream that plays it; 1.36 if it is left out.
	Version string            `json:"version"`
	Gates   []string          `json:"gates"`
	Config  json.RawMessage   `json:"config"`
	Objects []json.RawMessage `json:"objects"`
	Steps   []groupStep       `json:"steps"`
}

// groupStep is a list of changes, after which 15 s may pass, and then the scheduler runs until its active queue is empty.
type groupStep struct {
	Do    []map[string]json.RawMessage `json:"do"`
	Retry bool                         `json:"retry"`
}

// groupVector is a scenario as written, and what upstream does in each step.
type groupVector struct {
	Scenario json.RawMessage `json:"scenario"`
	Steps    []groupAnswer   `json:"steps"`
}

// groupAnswer is what happened in a step, and the state of the cluster after it.
type groupAnswer struct {
	Cycles  []cycleAnswer              `json:"cycles"`
	Bound   map[string]string          `json:"bound,omitempty"`
	Pending map[string]pendingAnswer   `json:"pending,omitempty"`
	Groups  map[string]conditionAnswer `json:"groups,omitempty"`
}

type cycleAnswer struct {
	Kind       string            `json:"kind"`
	Group      string            `json:"group,omitempty"`
	Result     string            `json:"result"`
	Status     string            `json:"status,omitempty"`
	Members    []memberAnswer    `json:"members"`
	Placements []placementAnswer `json:"placements,omitempty"`
	Chosen     string            `json:"chosen,omitempty"`
	Preemption string            `json:"preemption,omitempty"`
	Victims    []string          `json:"victims,omitempty"`
}

type memberAnswer struct {
	Pod     string `json:"pod"`
	Node    string `json:"node,omitempty"`
	Code    string `json:"code"`
	Message string `json:"message,omitempty"`
	Permit  string `json:"permit,omitempty"`
	Preempt bool   `json:"preempt,omitempty"`
}

type placementAnswer struct {
	Name   string            `json:"name"`
	Nodes  int               `json:"nodes"`
	Code   string            `json:"code"`
	Status string            `json:"status,omitempty"`
	Pods   map[string]string `json:"pods,omitempty"`
	Scores map[string]int64  `json:"scores,omitempty"`
	Total  int64             `json:"total,omitempty"`
}

type pendingAnswer struct {
	Queue     string `json:"queue"`
	Plugin    string `json:"plugin,omitempty"`
	Gate      string `json:"gate,omitempty"`
	Nominated string `json:"nominated,omitempty"`
}

type conditionAnswer struct {
	// Type is left out in the recordings of 1.36, whose only condition is PodGroupScheduled.
	Type    string `json:"type,omitempty"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// groups plays the scenarios of the files anew, and rewrites the files whose answers differ.
func groups(files []string) error {
	for _, file := range files {
		text, err := read(file)
		if err != nil {
			return err
		}
		var out bytes.Buffer
		for number, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
			vector, err := playGroups(line)
			if err != nil {
				return fmt.Errorf("%s, vector %d: %w", file, number+1, err)
			}
			encoded, err := json.Marshal(vector)
			if err != nil {
				return err
			}
			out.Write(append(encoded, '\n'))
		}
		if bytes.Equal(out.Bytes(), text) {
			continue
		}
		fmt.Fprintln(os.Stderr, "oracle: other answers in", file)
		if err := write(file, out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

func playGroups(line []byte) (*groupVector, error) {
	var vector groupVector
	if err := json.Unmarshal(line, &vector); err != nil {
		return nil, fmt.Errorf("not a vector: %w", err)
	}
	var scenario groupScenario
	if err := json.Unmarshal(vector.Scenario, &scenario); err != nil {
		return nil, fmt.Errorf("not a scenario: %w", err)
	}
	vector.Steps = []groupAnswer{}
	err := playScenario(&scenario, false, func(answer groupAnswer, _ time.Duration) {
		vector.Steps = append(vector.Steps, answer)
	})
	return &vector, err
}

// playScenario plays the steps of a scenario, and reports what happens in each and the CPU time of its cycles.
func playScenario(scenario *groupScenario, timed bool, report func(groupAnswer, time.Duration)) error {
	if of := cmp.Or(scenario.Version, "1.36"); !strings.HasPrefix(version(), "v"+of+".") {
		return fmt.Errorf("%s is for %s, not %s", scenario.Name, of, version())
	}
	gates := map[string]bool{"OpportunisticBatching": false, "SchedulerAsyncPreemption": false}
	for _, gate := range groupGates {
		gates[gate] = false
	}
	for _, gate := range scenario.Gates {
		gates[gate] = true
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		return err
	}
	cluster, err := newGroupCluster(scenario, timed)
	if err != nil {
		return fmt.Errorf("%s: %w", scenario.Name, err)
	}
	defer cluster.close()
	for number, step := range scenario.Steps {
		cluster.spent = 0
		answer, err := cluster.step(step)
		if err != nil {
			return fmt.Errorf("%s, step %d: %w", scenario.Name, number, err)
		}
		report(answer, cluster.spent)
	}
	return nil
}

// timeGroups plays the scenario in a file and prints, for each step, the CPU time of its cycles, their number, and how many
// pods have a node afterwards.
func timeGroups(file string, out io.Writer) error {
	text, err := read(file)
	if err != nil {
		return err
	}
	var scenario groupScenario
	if err := json.Unmarshal(text, &scenario); err != nil {
		return fmt.Errorf("not a scenario: %w", err)
	}
	runtime.GC()
	encoder := json.NewEncoder(out)
	return playScenario(&scenario, true, func(answer groupAnswer, spent time.Duration) {
		err = encoder.Encode(map[string]any{
			"impl": "kube-scheduler " + version() + " (in process)", "cpu_us": spent.Microseconds(), "cycles": len(answer.Cycles),
			"bound": len(answer.Bound),
		})
	})
}

// step makes the changes, lets time pass, and schedules until the active queue is empty.
func (g *groupCluster) step(step groupStep) (groupAnswer, error) {
	answer := groupAnswer{Cycles: []cycleAnswer{}}
	for _, change := range step.Do {
		for what, value := range change {
			g.clock.Step(tick)
			if err := g.change(what, value); err != nil {
				return answer, fmt.Errorf("%s: %w", what, err)
			}
		}
	}
	if step.Retry {
		g.clock.Step(retryAfter)
		g.flushBackoff()
	}
	for cycles := 0; len(g.sched.SchedulingQueue.PodsInActiveQ()) > 0; cycles++ {
		if cycles == cyclesMax {
			return answer, fmt.Errorf("the active queue is not empty after %d cycles", cyclesMax)
		}
		if cycle := g.schedule(); cycle != nil {
			answer.Cycles = append(answer.Cycles, *cycle)
		}
	}
	return answer, g.describe(&answer)
}

func (g *groupCluster) change(what string, value json.RawMessage) error {
	var name string
	if what != "create" && what != "update" && what != "reap" {
		if err := json.Unmarshal(value, &name); err != nil {
			return err
		}
	}
	switch what {
	case "create", "update":
		return g.apply(value)
	case "delete":
		parts := strings.Split(name, "/")
		return g.remove(objectKey(parts[0], strings.Join(parts[1:len(parts)-1], "/"), parts[len(parts)-1]))
	case "finish":
		return g.remove("Pod/" + name)
	case "reap":
		return g.reap()
	case "ungate":
		return g.ungate("Pod/" + name)
	}
	return fmt.Errorf("no change is named so")
}
