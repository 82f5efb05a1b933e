package main

import (
	"context"
	"fmt"
	"sort"
	"sync"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// world is one cluster and upstream's scheduler, whose loop does not run: it is asked step by step.
type world struct {
	ctx      context.Context
	close    context.CancelFunc
	log      klog.Logger
	sched    *scheduler.Scheduler
	snapshot *internalcache.Snapshot
	fallback framework.Framework

	// factory has the informers, which changes go through.
	factory *stillFactory
	// writes says that allocations are written before the next decision.
	writes bool

	lock    sync.Mutex
	victims []string
	// freed and deleted are the claims that PostFilter frees and deletes.
	freed, deleted map[string]bool
}

func newWorld(objects []runtime.Object, cfg *config.KubeSchedulerConfiguration, more ...scheduler.Option) (*world, error) {
	w := &world{log: logr.Discard(), freed: map[string]bool{}, deleted: map[string]bool{}}
	w.ctx, w.close = context.WithCancel(klog.NewContext(context.Background(), w.log))
	client := w.client()
	factory := newStillFactory(client)
	w.factory = factory
	options := append([]scheduler.Option{}, more...)
	first := v1.DefaultSchedulerName
	if cfg != nil {
		options = append(options, scheduler.WithProfiles(cfg.Profiles...))
		first = cfg.Profiles[0].SchedulerName
	}
	sched, err := scheduler.New(w.ctx, client, factory, nil, silent, options...)
	if err == nil {
		err = factory.fill(objects)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	w.sched = sched
	w.fallback = sched.Profiles[first]
	if profile := sched.Profiles[v1.DefaultSchedulerName]; profile != nil {
		w.fallback = profile
	}
	w.snapshot = w.fallback.SnapshotSharedLister().(*internalcache.Snapshot)
	return w, nil
}

// client takes every write, does nothing, and notes whom preemption deletes. Reads do not come here: informers are full.
func (w *world) client() *fake.Clientset {
	client := &fake.Clientset{}
	client.AddReactor("delete", "pods", func(action ktesting.Action) (bool, runtime.Object, error) {
		w.lock.Lock()
		defer w.lock.Unlock()
		name := action.(ktesting.DeleteAction).GetName()
		w.victims = append(w.victims, action.GetNamespace()+"/"+name)
		return true, nil, nil
	})
	client.AddReactor("update", "resourceclaims", func(action ktesting.Action) (bool, runtime.Object, error) {
		w.lock.Lock()
		defer w.lock.Unlock()
		claim := action.(ktesting.UpdateAction).GetObject().(*resourceapi.ResourceClaim)
		if action.GetSubresource() == "status" {
			w.freed[claim.Namespace+"/"+claim.Name] = true
		}
		return true, claim, nil
	})
	client.AddReactor("delete", "resourceclaims", func(action ktesting.Action) (bool, runtime.Object, error) {
		w.lock.Lock()
		defer w.lock.Unlock()
		w.deleted[action.GetNamespace()+"/"+action.(ktesting.DeleteAction).GetName()] = true
		return true, nil, nil
	})
	client.AddReactor("*", "*", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
	return client
}

// takeVictims returns whom preemption has deleted since the last call, sorted.
func (w *world) takeVictims() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	taken := append([]string{}, w.victims...)
	w.victims = nil
	sort.Strings(taken)
	return taken
}

// takeFreed returns the claims that PostFilter has freed and deleted since the last call, sorted.
func (w *world) takeFreed() (freed, deleted []string) {
	w.lock.Lock()
	defer w.lock.Unlock()
	freed, deleted = sortedKeys(w.freed), sortedKeys(w.deleted)
	clear(w.freed)
	clear(w.deleted)
	return freed, deleted
}

func sortedKeys(set map[string]bool) []string {
	var keys []string
	for key := range set {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

// profile is the framework of the pod's scheduler name, else of the default scheduler, else the first.
func (w *world) profile(pod *v1.Pod) framework.Framework {
	if profile := w.sched.Profiles[pod.Spec.SchedulerName]; profile != nil {
		return profile
	}
	return w.fallback
}

// place counts the pod on the node from now on, with what its plugins reserve there.
func (w *world) place(cycle *cycle, node string) error {
	pod := cycle.pod.DeepCopy()
	pod.Spec.NodeName = node
	if status := cycle.framework.RunReservePluginsReserve(w.ctx, cycle.state, pod, node); !status.IsSuccess() {
		return fmt.Errorf("reserving %s on %s: %w", cycle.pod.Name, node, status.AsError())
	}
	if err := cycle.tellClaims(node); err != nil {
		return err
	}
	return w.sched.Cache.AssumePod(w.log, pod)
}
