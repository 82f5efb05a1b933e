package main

import (
	"context"
)

// NodeGroup is a group whose size a cluster autoscaler may raise, with the node that it would add.
type NodeGroup struct {
	Name string
	// Template is a Node object; Like is the name of an existing node instead, whose DaemonSet pods new nodes get, too.
	Template Object
	Like     string
}

// Option is an answer for one group: how many nodes, and how many pods stay pending with them.
type Option struct {
	Group   string `json:"template"`
	Count   int    `json:"count"`
	Pending int    `json:"pending"`
}

// ScaleUp is the answer to a scale-up question.
type ScaleUp struct {
	// Nodes are the nodes to add, of one group or of several.
	Nodes []struct {
		Group string   `json:"template"`
		Count int      `json:"count"`
		Names []string `json:"names"`
	} `json:"nodes"`
	// Placements are what the scheduler decides once these nodes exist.
	Placements     []Placement `json:"placements"`
	Pending        int         `json:"pending"`
	PendingWithout int         `json:"pendingWithout"`
	// Options has the result of each group alone.
	Options []Option `json:"options"`
}

// ScaleUpSimulator answers which node groups to raise, as cluster-autoscaler's seam of this name does.
type ScaleUpSimulator interface {
	Simulate(ctx context.Context, groups []NodeGroup, pods []Object, maxNodes int) (*ScaleUp, error)
}

// Autoscaler implements ScaleUpSimulator with a fork.
type Autoscaler struct{ fork *Fork }

var _ ScaleUpSimulator = Autoscaler{}

// Simulate returns which nodes to add for these pods; for the pending pods of the cluster, if there are none.
func (a Autoscaler) Simulate(ctx context.Context, groups []NodeGroup, pods []Object,
	maxNodes int) (*ScaleUp, error) {
	templates := []Object{}
	for _, group := range groups {
		template := Object{"name": group.Name}
		if group.Like != "" {
			template["like"] = group.Like
		} else {
			template["node"] = group.Template
		}
		templates = append(templates, template)
	}
	question := Object{"templates": templates, "maxNodes": maxNodes}
	if len(pods) > 0 {
		question["objects"] = pods
	} else {
		question["pending"] = true
	}
	answer := &ScaleUp{}
	return answer, a.fork.ask(ctx, "scaleUp", question, answer)
}

// Verify really adds the nodes of an answer to the fork, places the pods, and returns the number of pods whose node
// differs from the answer's. It undoes both.
func (a Autoscaler) Verify(ctx context.Context, groups []NodeGroup, pods []Object, answer *ScaleUp) (int, error) {
	before, differences := a.fork.changes, 0
	for _, nodes := range answer.Nodes {
		for _, group := range groups {
			if group.Name != nodes.Group {
				continue
			}
			change := Object{"count": nodes.Count}
			if group.Like != "" {
				change["like"] = group.Like
			} else {
				change["template"] = group.Template
			}
			if err := a.fork.change(ctx, "addNodes", change, nil); err != nil {
				return 0, err
			}
		}
	}
	placed, err := a.fork.Place(ctx, pods)
	if err != nil {
		return 0, err
	}
	expected := map[string]string{}
	for _, placement := range answer.Placements {
		expected[placement.Pod] = name(placement.Node)
	}
	for _, placement := range placed {
		if expected[placement.Pod] != name(placement.Node) {
			differences++
		}
	}
	return differences + len(expected) - len(placed), a.fork.UndoTo(ctx, before)
}

func name(node *string) string {
	if node == nil {
		return ""
	}
	return *node
}
