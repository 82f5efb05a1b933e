package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
)

// hasDevices says whether the cluster offers devices.
func (c *contents) hasDevices() bool {
	return slices.ContainsFunc(c.objects, func(object runtime.Object) bool {
		_, is := object.(*resourceapi.ResourceSlice)
		return is
	})
}

// hasFreed says whether PostFilter freed or deleted a claim.
func (w *world) hasFreed() bool {
	w.lock.Lock()
	defer w.lock.Unlock()
	return len(w.freed)+len(w.deleted) > 0
}

// private reads a field that is not exported; the zero Value if there is none.
func private(of reflect.Value, name string) reflect.Value {
	field := of.FieldByName(name)
	if !field.IsValid() {
		return field
	}
	return reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem()
}

// keepUnavailable returns a function that restores what Filter found unusable. Preemption's dry runs run Filter in the same
// state, and would add claims to what the next try frees.
func (c *cycle) keepUnavailable() func() {
	data, err := c.state.Read("DynamicResources")
	if err != nil {
		return func() {}
	}
	field := private(reflect.ValueOf(data).Elem(), "unavailableClaims")
	if !field.IsValid() {
		return func() {}
	}
	found := field.Interface().(sets.Set[int]).Clone()
	return func() { field.Set(reflect.ValueOf(found.Clone())) }
}

// allocated is a claim and what Reserve allocated for it.
type allocated struct {
	claim    *resourceapi.ResourceClaim
	extended bool
	told     Claim
}

// allocations reads the cycle state of DynamicResources: the claims of the pod, and the allocations on the node.
func (c *cycle) allocations(node string) (claims []*resourceapi.ResourceClaim, told []allocated) {
	data, err := c.state.Read("DynamicResources")
	if err != nil {
		return nil, nil
	}
	state := reflect.ValueOf(data).Elem()
	store := private(state, "claims")
	if !store.IsValid() || store.Kind() != reflect.Struct {
		return nil, nil
	}
	claims = private(store, "claims").Interface().([]*resourceapi.ResourceClaim)
	own := int(private(store, "numUserOwned").Int())
	entry := private(state, "nodeAllocations").MapIndex(reflect.ValueOf(node))
	if !entry.IsValid() {
		return claims, nil
	}
	onNode := reflect.New(entry.Type()).Elem()
	onNode.Set(entry)
	results := private(onNode, "allocationResults").Interface().([]resourceapi.AllocationResult)
	for at, claim := range claims {
		if claim.Status.Allocation != nil || len(told) >= len(results) {
			continue
		}
		one := allocated{claim: claim, extended: at >= own}
		one.told = Claim{Claim: claim.Namespace + "/" + claim.Name, Allocation: *results[len(told)].DeepCopy()}
		if one.extended {
			if made := private(onNode, "extendedResourceClaim").Interface().(*resourceapi.ResourceClaim); made != nil {
				one.told.Requests = made.Spec.Devices.Requests
			}
			one.told.RequestMappings = private(onNode, "containerResourceRequestMappings").Interface().([]v1.ContainerExtendedResourceRequest)
		}
		told = append(told, one)
	}
	return claims, told
}

// tellClaims tells what Reserve allocated. Ids of shares are random and are replaced.
func (c *cycle) tellClaims(node string) error {
	claims, all := c.allocations(node)
	if c.writes {
		if err := c.write(claims, all); err != nil {
			return err
		}
	}
	for _, one := range all {
		results := one.told.Allocation.Devices.Results
		for at := range results {
			if results[at].ShareID != nil {
				results[at].ShareID = ptr.To(types.UID("random"))
			}
		}
		c.told.Claims = append(c.told.Claims, one.told)
	}
	return nil
}

const finalizer = "resource.kubernetes.io/delete-protection"

// write does what PreBind writes, without its requests: allocations, reservations and the claim for extended resources.
func (c *cycle) write(claims []*resourceapi.ResourceClaim, all []allocated) error {
	made := map[types.UID]allocated{}
	for _, one := range all {
		made[one.claim.UID] = one
	}
	seen := map[types.UID]bool{}
	for _, claim := range claims {
		one, isNew := made[claim.UID]
		if seen[claim.UID] || claim.Status.Allocation == nil && !isNew {
			continue
		}
		seen[claim.UID] = true
		written := claim.DeepCopy()
		if isNew {
			written.Status.Allocation = one.told.Allocation.DeepCopy()
			written.Finalizers = []string{finalizer}
		}
		reserved := false
		for _, consumer := range written.Status.ReservedFor {
			reserved = reserved || consumer.UID == c.pod.UID
		}
		if !reserved {
			written.Status.ReservedFor = append(written.Status.ReservedFor,
				resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: c.pod.Name, UID: c.pod.UID})
		}
		if one.extended {
			written.Name = c.pod.Name + "-extended-resources"
			written.UID = types.UID("uid-" + written.Name)
			written.Spec.Devices.Requests = one.told.Requests
			written.Annotations = map[string]string{"resource.kubernetes.io/extended-resource-claim": "true"}
			written.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: c.pod.Name, UID: c.pod.UID, Controller: ptr.To(true)}}
		}
		written.ResourceVersion = nextVersion(claim.ResourceVersion)
		if err := c.factory.change(written, false); err != nil {
			return err
		}
		if isNew {
			c.land(claim.UID)
		}
	}
	return nil
}

// land takes an allocation out of flight. The method's name differs between versions.
func (c *cycle) land(uid types.UID) {
	tracker := reflect.ValueOf(c.framework.SharedDRAManager().ResourceClaims())
	if method := tracker.MethodByName("MaybeRemoveClaimPendingAllocation"); method.IsValid() {
		method.Call([]reflect.Value{reflect.ValueOf(uid), reflect.ValueOf(true)})
		return
	}
	tracker.MethodByName("RemoveClaimPendingAllocation").Call([]reflect.Value{reflect.ValueOf(uid)})
}

func nextVersion(version string) string {
	number, _ := strconv.Atoi(version)
	return strconv.Itoa(number + 1)
}

// change makes a change of the scenario.
func (w *world) change(change change) error {
	object := change.object
	if change.freed {
		store := w.factory.still[reflect.TypeOf(object)].GetStore()
		known, exists, err := store.Get(object)
		if err != nil || !exists {
			return err
		}
		freed := known.(*resourceapi.ResourceClaim).DeepCopy()
		freed.Status = resourceapi.ResourceClaimStatus{}
		freed.ResourceVersion = nextVersion(freed.ResourceVersion)
		object = freed
	}
	return w.factory.change(object, change.deleted)
}

// change stores or removes an object and tells the handlers.
func (f *stillFactory) change(object runtime.Object, deleted bool) error {
	informer := f.still[reflect.TypeOf(object)]
	if informer == nil {
		text, _ := json.Marshal(object)
		return fmt.Errorf("nobody asked for objects such as %s", text)
	}
	named, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	known, exists, err := informer.GetStore().Get(object)
	if err != nil {
		return err
	}
	if named.GetResourceVersion() == "" {
		named.SetResourceVersion("1")
		if exists {
			before, err := meta.Accessor(known)
			if err != nil {
				return err
			}
			named.SetResourceVersion(nextVersion(before.GetResourceVersion()))
		}
	}
	switch {
	case deleted && !exists:
		return nil
	case deleted:
		if err := informer.GetStore().Delete(known); err != nil {
			return err
		}
	case exists:
		err = informer.GetStore().Update(object)
	default:
		err = informer.GetStore().Add(object)
	}
	if err != nil {
		return err
	}
	for _, handler := range informer.handlers {
		switch {
		case deleted:
			handler.OnDelete(known)
		case exists:
			handler.OnUpdate(known, object)
		default:
			handler.OnAdd(object, false)
		}
	}
	return nil
}
