//go:build kube1.34 || kube1.35

package main

import (
	"errors"
	"io"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// What differs between the versions of upstream's interfaces: those before 1.36.

func silent(string) events.EventRecorder { return &events.FakeRecorder{} }

// suggest has upstream's own function decide on the pod.
func (w *world) suggest(state *framework.CycleState, pod *v1.Pod) (string, error) {
	result, err := w.sched.SchedulePod(w.ctx, w.fallback, state, pod)
	return result.SuggestedHost, err
}

// groups plays scenarios of pod groups, which these versions do not have.
func groups([]string) error { return errors.New("pod groups are played from 1.36 on") }

// timeGroups times scenarios of pod groups, which these versions do not have.
func timeGroups(string, io.Writer) error { return groups(nil) }
