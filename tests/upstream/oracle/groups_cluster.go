//go:build !kube1.34 && !kube1.35

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/fake"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	testingclock "k8s.io/utils/clock/testing"
)

const (
	// tick passes between two changes, and between two failures: the times of all entries of the queue differ.
	tick = time.Millisecond
	// retryAfter is longer than the longest backoff.
	retryAfter = 15 * time.Second
	// startsAfter is how long after its creation a pod starts that is bound in the scenario.
	startsAfter = 1000 * time.Second
	// cyclesMax is far more than any step needs.
	cyclesMax = 1000
)

var (
	clockStart = time.Unix(4_000_000_000, 0)
	deletedAt  = metav1.Unix(1_700_000_500, 0)
)

// groupCluster is a fake API server with upstream's whole scheduler, whose loop does not run: it makes one cycle at a time.
// What a cycle writes reaches the scheduler's handlers at once, except what its bindings write: that follows the cycle.
type groupCluster struct {
	ctx     context.Context
	close   context.CancelFunc
	log     klog.Logger
	clock   *testingclock.FakeClock
	sched   *scheduler.Scheduler
	factory *stillFactory
	// objects are those of the API server, by kind, namespace and name.
	objects map[string]runtime.Object
	version int

	lock   sync.Mutex
	writes []groupWrite
	// delays says that writes wait for deliver.
	delays bool
	// binding are the pods that are on their way to a node.
	binding map[types.UID]bool
	cycle   *spiedCycle
	// timed says that only the CPU time of cycles is of interest: nothing is noted, repeated, or ordered by name.
	timed bool
	spent time.Duration
}

// groupWrite is a request to the API server: a patch, the node of a Binding, or a deletion.
type groupWrite struct {
	key   string
	patch []byte
	node  string
}

func objectKey(kind, namespace, name string) string {
	if namespace == "" {
		return kind + "/" + name
	}
	return kind + "/" + namespace + "/" + name
}

func newGroupCluster(scenario *groupScenario, timed bool) (*groupCluster, error) {
	g := &groupCluster{timed: timed, log: logr.Discard(), clock: testingclock.NewFakeClock(clockStart), objects: map[string]runtime.Object{}, binding: map[types.UID]bool{}}
	g.ctx, g.close = context.WithCancel(klog.NewContext(context.Background(), g.log))
	client := g.client()
	g.factory = newStillFactory(client)
	everyNode := int32(100)
	options := []scheduler.Option{scheduler.WithClock(g.clock), scheduler.WithParallelism(1), scheduler.WithPercentageOfNodesToScore(&everyNode)}
	decoded, err := (&Scenario{Objects: scenario.Objects, Config: scenario.Config}).decode()
	if err != nil {
		return nil, err
	}
	if decoded.config != nil {
		options = append(options, scheduler.WithProfiles(decoded.config.Profiles...))
	}
	sched, err := scheduler.New(g.ctx, client, g.factory, nil, silent, options...)
	if err != nil {
		g.close()
		return nil, err
	}
	g.sched = sched
	g.spy()
	for i, object := range decoded.objects {
		key, err := g.keyOf(object)
		if err != nil {
			return nil, err
		}
		g.number(object)
		g.objects[key] = decoded.objects[i]
	}
	return g, g.factory.fill(decoded.objects)
}

// client notes every write. Reads do not come here: informers are full.
func (g *groupCluster) client() *fake.Clientset {
	client := &fake.Clientset{}
	kinds := map[string]string{"pods": "Pod", "podgroups": "PodGroup"}
	client.AddReactor("*", "*", func(action ktesting.Action) (bool, runtime.Object, error) {
		write := groupWrite{}
		kind := kinds[action.GetResource().Resource]
		switch action := action.(type) {
		case ktesting.PatchAction:
			write.key, write.patch = objectKey(kind, action.GetNamespace(), action.GetName()), action.GetPatch()
		case ktesting.DeleteAction:
			write.key = objectKey(kind, action.GetNamespace(), action.GetName())
		case ktesting.CreateAction:
			binding, ok := action.GetObject().(*v1.Binding)
			if !ok {
				return true, nil, fmt.Errorf("no scenario creates a %T", action.GetObject())
			}
			write.key, write.node = objectKey(kind, action.GetNamespace(), binding.Name), binding.Target.Name
		default:
			return true, nil, fmt.Errorf("no scenario needs to %s %s", action.GetVerb(), action.GetResource().Resource)
		}
		if kind == "" {
			return true, nil, fmt.Errorf("no scenario writes %s", action.GetResource().Resource)
		}
		g.lock.Lock()
		defer g.lock.Unlock()
		pod, _ := g.objects[write.key].(*v1.Pod)
		if g.delays || pod != nil && g.binding[pod.UID] {
			g.writes = append(g.writes, write)
			return true, nil, nil
		}
		return true, nil, g.carryOut(write)
	})
	return client
}

func (g *groupCluster) keyOf(object runtime.Object) (string, error) {
	kinds, _, err := clientscheme.Scheme.ObjectKinds(object)
	if err != nil {
		return "", err
	}
	named, err := meta.Accessor(object)
	if err != nil {
		return "", err
	}
	return objectKey(kinds[0].Kind, named.GetNamespace(), named.GetName()), nil
}

// number gives the object the next resource version.
func (g *groupCluster) number(object runtime.Object) {
	g.version++
	named, _ := meta.Accessor(object)
	named.SetResourceVersion(strconv.Itoa(g.version))
}

func (g *groupCluster) apply(raw json.RawMessage) error {
	object, _, err := clientscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return err
	}
	key, err := g.keyOf(object)
	if err != nil {
		return err
	}
	keepStatus(g.objects[key], object)
	return g.put(object)
}

// put creates or replaces the object, which the scheduler then sees.
func (g *groupCluster) put(object runtime.Object) error {
	g.number(object)
	return g.show(object)
}

func (g *groupCluster) show(object runtime.Object) error {
	key, err := g.keyOf(object)
	if err != nil {
		return err
	}
	old := g.objects[key]
	g.objects[key] = object
	informer := g.factory.still[reflect.TypeOf(object)]
	if informer == nil || ended(object) {
		return nil
	}
	if err := informer.GetStore().Add(object); err != nil {
		return err
	}
	for _, handler := range informer.handlers {
		if old == nil {
			handler.OnAdd(object, false)
		} else {
			handler.OnUpdate(old, object)
		}
	}
	return nil
}

// remove deletes the object at once, which the scheduler then sees.
func (g *groupCluster) remove(key string) error {
	object := g.objects[key]
	if object == nil {
		return fmt.Errorf("%s does not exist", key)
	}
	delete(g.objects, key)
	informer := g.factory.still[reflect.TypeOf(object)]
	if informer == nil {
		return nil
	}
	if err := informer.GetStore().Delete(object); err != nil {
		return err
	}
	for _, handler := range informer.handlers {
		handler.OnDelete(object)
	}
	return nil
}

// reap removes every terminating pod.
func (g *groupCluster) reap() error {
	for _, key := range sortedObjects(g.objects) {
		if pod, ok := g.objects[key].(*v1.Pod); ok && pod.DeletionTimestamp != nil {
			if err := g.remove(key); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *groupCluster) ungate(key string) error {
	pod, ok := g.objects[key].(*v1.Pod)
	if !ok {
		return fmt.Errorf("%s does not exist", key)
	}
	pod = pod.DeepCopy()
	pod.Spec.SchedulingGates = nil
	return g.put(pod)
}

func sortedObjects(objects map[string]runtime.Object) []string {
	keys := make([]string, 0, len(objects))
	for key := range objects {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

// deliver carries out what the cycle wrote: in its order, but Bindings last, by name.
func (g *groupCluster) deliver() {
	writes := g.takeWrites()
	sort.SliceStable(writes, func(i, j int) bool {
		if (writes[i].node == "") != (writes[j].node == "") {
			return writes[i].node == ""
		}
		return writes[i].node != "" && writes[i].key < writes[j].key
	})
	g.lock.Lock()
	defer g.lock.Unlock()
	for _, write := range writes {
		if err := g.carryOut(write); err != nil {
			panic(err)
		}
	}
}

// carryOut does what the request asks for, which the scheduler then sees.
func (g *groupCluster) carryOut(write groupWrite) error {
	old := g.objects[write.key]
	if old == nil {
		return nil
	}
	if write.patch == nil && write.node == "" {
		g.cycle.victims = append(g.cycle.victims, strings.TrimPrefix(write.key, "Pod/"))
	}
	object := write.on(old.DeepCopyObject())
	if numbersPatches || write.node != "" {
		g.number(object)
	}
	return g.show(object)
}

// on returns the object after the write.
func (w *groupWrite) on(object runtime.Object) runtime.Object {
	pod, _ := object.(*v1.Pod)
	switch {
	case w.node != "":
		pod.Spec.NodeName = w.node
		pod.Status.NominatedNodeName = ""
		pod.Status.StartTime = &metav1.Time{Time: pod.CreationTimestamp.Add(startsAfter)}
	case w.patch == nil:
		if pod.DeletionTimestamp == nil {
			pod.DeletionTimestamp = &deletedAt
		}
	default:
		return patched(object, w.patch)
	}
	return object
}

func patched(object runtime.Object, patch []byte) runtime.Object {
	kind := reflect.TypeOf(object).Elem()
	before, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, reflect.New(kind).Elem().Interface())
	if err != nil {
		panic(err)
	}
	read := reflect.New(kind).Interface().(runtime.Object)
	if err := json.Unmarshal(after, read); err != nil {
		panic(err)
	}
	return read
}

// flushBackoff moves on what has waited out its backoff, as the queue's own timer would.
func (g *groupCluster) flushBackoff() {
	pods := map[string]*v1.Pod{}
	for _, pod := range g.sched.SchedulingQueue.PodsInBackoffQ() {
		pods[pod.Namespace+"/"+pod.Name] = pod
	}
	g.sched.SchedulingQueue.Activate(g.log, pods)
}

// describe says where every pod is, and what the groups' conditions are.
func (g *groupCluster) describe(answer *groupAnswer) error {
	places := map[string]string{}
	for name, pods := range g.queues() {
		for _, pod := range pods {
			places[objectKey("Pod", pod.Namespace, pod.Name)] = name
		}
	}
	answer.Bound, answer.Pending, answer.Groups = map[string]string{}, map[string]pendingAnswer{}, map[string]conditionAnswer{}
	for key, object := range g.objects {
		kind, id, _ := strings.Cut(key, "/")
		pod, isPod := object.(*v1.Pod)
		switch {
		case isPod && pod.Spec.NodeName != "":
			answer.Bound[id] = pod.Spec.NodeName
			if pod.DeletionTimestamp != nil {
				answer.Bound[id] += " (terminating)"
			}
		case isPod:
			answer.Pending[id] = g.pending(pod, places[key])
		case kind == "PodGroup":
			if condition := groupCondition(object); condition != nil {
				answer.Groups[id] = *condition
			}
		}
	}
	return nil
}

// pending describes a pod without a node. A pod in no queue is that of another scheduler.
func (g *groupCluster) pending(pod *v1.Pod, queue string) pendingAnswer {
	told := pendingAnswer{Queue: queue, Nominated: pod.Status.NominatedNodeName}
	if queue == "" {
		told.Queue = "none"
	}
	plugin, own := g.gatingPlugin(pod)
	if plugin == "" {
		return told
	}
	told.Queue, told.Plugin = "gated", plugin
	if own {
		for _, each := range g.sched.Profiles[pod.Spec.SchedulerName].PreEnqueuePlugins() {
			if each.Name() == plugin {
				told.Gate = each.PreEnqueue(g.ctx, pod).Message()
			}
		}
	}
	return told
}
