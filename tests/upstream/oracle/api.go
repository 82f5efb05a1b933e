//go:build !kube1.34 && !kube1.35

package main

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// What differs between the versions of upstream's interfaces: those from 1.36 on.

func silent(string) events.EventRecorderLogger { return &events.FakeRecorder{} }

// suggest has upstream's own function decide on the pod.
func (w *world) suggest(state *framework.CycleState, pod *v1.Pod) (string, error) {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return "", err
	}
	queued := &framework.QueuedPodInfo{PodInfo: info, PodSignature: w.fallback.SignPod(w.ctx, pod)}
	result, err := w.sched.SchedulePod(w.ctx, w.fallback, state, queued)
	return result.SuggestedHost, err
}

func (f *stillFactory) InformerName() *cache.InformerName { return nil }

func (i *stillInformer) HasSyncedChecker() cache.DoneChecker { return synced{} }

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (synced) HasSyncedChecker() cache.DoneChecker { return synced{} }
func (synced) Name() string                        { return "filled" }
func (synced) Done() <-chan struct{}               { return closed }
