package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
)

// Scenario is a cluster and the pods to place in it, as written: each part is repeated in the answer unread.
type Scenario struct {
	Name    string            `json:"name"`
	Kind    string            `json:"kind,omitempty"`
	Config  json.RawMessage   `json:"config,omitempty"`
	Objects []json.RawMessage `json:"objects"`
	Pods    []json.RawMessage `json:"pods"`
	// Changes happen between the decisions.
	Changes []Change `json:"changes,omitempty"`
	// Writes says that what a decision allocates is written to the claims before the next decision. Otherwise it stays in flight.
	Writes bool `json:"writes,omitempty"`
}

// Change is a new state of an object of resource.k8s.io before the decision on a pod.
type Change struct {
	// Before is the index of the pod.
	Before int `json:"before"`
	// Object is the object, or only its kind, namespace and name if it is deleted or freed.
	Object json.RawMessage `json:"object"`
	// Deleted says that the object is gone.
	Deleted bool `json:"deleted,omitempty"`
	// Freed says that the claim loses its allocation.
	Freed bool `json:"freed,omitempty"`
}

// Verdict is what a plugin said of a node, or of the pod before any node was looked at.
type Verdict struct {
	Code    string   `json:"code"`
	Plugin  string   `json:"plugin"`
	Reasons []string `json:"reasons"`
}

// Decision is all that is said of one pod.
type Decision struct {
	Pod        string                      `json:"pod"`
	PreFilter  *Verdict                    `json:"preFilter,omitempty"`
	Rejected   map[string]Verdict          `json:"rejected,omitempty"`
	Feasible   []string                    `json:"feasible,omitempty"`
	Scores     map[string]map[string]int64 `json:"scores,omitempty"`
	Totals     map[string]int64            `json:"totals,omitempty"`
	Selected   string                      `json:"selected,omitempty"`
	Message    string                      `json:"message,omitempty"`
	PostFilter *string                     `json:"postFilter,omitempty"`
	Preemption map[string][]string         `json:"preemption,omitempty"`
	// Messages are all errors, where nodes give different ones. Message is the first node's.
	Messages []string `json:"messages,omitempty"`
	// Claims are those that Reserve allocated, in the pod's order, the one for extended resources last.
	Claims []Claim `json:"claims,omitempty"`
	// Deallocates and Deletes are the claims one of which PostFilter frees or deletes.
	Deallocates []string `json:"deallocates,omitempty"`
	Deletes     []string `json:"deletes,omitempty"`
}

// Claim is an allocation. Requests and RequestMappings are only those of a claim for extended resources.
type Claim struct {
	Claim           string                                `json:"claim"`
	Requests        []resourceapi.DeviceRequest           `json:"requests,omitempty"`
	RequestMappings []v1.ContainerExtendedResourceRequest `json:"requestMappings,omitempty"`
	Allocation      resourceapi.AllocationResult          `json:"allocation"`
}

// Vector is a scenario with its decisions, or with the reason why there are none.
type Vector struct {
	Scenario  Scenario   `json:"scenario"`
	Decisions []Decision `json:"decisions"`
	Error     string     `json:"error,omitempty"`
}

// parse reads a line: a scenario, or a vector, of which only the scenario counts.
func parse(line []byte) (Scenario, error) {
	var read struct {
		Scenario
		Inner *Scenario `json:"scenario"`
	}
	if err := json.Unmarshal(line, &read); err != nil {
		return Scenario{}, fmt.Errorf("not a scenario: %w", err)
	}
	if read.Inner != nil {
		return *read.Inner, nil
	}
	return read.Scenario, nil
}

// contents is a scenario in upstream's types.
type contents struct {
	objects []runtime.Object
	pods    []*v1.Pod
	config  *config.KubeSchedulerConfiguration
	changes []change
	writes  bool
}

// change is a Change in upstream's types.
type change struct {
	before         int
	object         runtime.Object
	deleted, freed bool
}

func (s *Scenario) decode() (*contents, error) {
	c := &contents{writes: s.Writes}
	seen := map[string]bool{}
	add := func(raw json.RawMessage) (runtime.Object, error) {
		object, kind, err := clientscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
		if err != nil {
			return nil, err
		}
		named, err := meta.Accessor(object)
		if err != nil {
			return nil, err
		}
		key := fmt.Sprintf("%s %s/%s", kind.Kind, named.GetNamespace(), named.GetName())
		if seen[key] {
			return nil, fmt.Errorf("%s stands there twice", key)
		}
		seen[key] = true
		// As the API server does. Without a version, 1.34 reserves no volume.
		if named.GetResourceVersion() == "" && (strings.HasPrefix(kind.Kind, "PersistentVolume") || kind.Kind == "ResourceClaim") {
			named.SetResourceVersion("1")
		}
		c.objects = append(c.objects, object)
		return object, nil
	}
	for i, raw := range s.Objects {
		if _, err := add(raw); err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
	}
	for i, raw := range s.Pods {
		object, err := add(raw)
		if err != nil {
			return nil, fmt.Errorf("pods[%d]: %w", i, err)
		}
		pod, ok := object.(*v1.Pod)
		if !ok {
			return nil, fmt.Errorf("pods[%d]: a %T is no pod", i, object)
		}
		c.pods = append(c.pods, pod.DeepCopy())
	}
	for i, raw := range s.Changes {
		object, _, err := clientscheme.Codecs.UniversalDeserializer().Decode(raw.Object, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("changes[%d]: %w", i, err)
		}
		c.changes = append(c.changes, change{raw.Before, object, raw.Deleted, raw.Freed})
	}
	return c, s.decodeConfig(c)
}

func (s *Scenario) decodeConfig(c *contents) error {
	if len(s.Config) == 0 || bytes.Equal(s.Config, []byte("null")) {
		return nil
	}
	object, _, err := configscheme.Codecs.UniversalDecoder().Decode(s.Config, nil, nil)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	read, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return fmt.Errorf("config: a %T is no KubeSchedulerConfiguration", object)
	}
	if len(read.Extenders) > 0 {
		return errors.New("config: extenders are not asked here")
	}
	if err := validation.ValidateKubeSchedulerConfiguration(read); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	c.config = read
	return nil
}
