// Writes objects in both encodings of an API server, to compare protobuf decoding with JSON decoding: every distinct object of the golden
// vectors, and generated objects of every watched kind with all fields filled at random.
//
//	go run ./protobuf ../golden/*.jsonl ../golden/*.jsonl.gz | gzip -9n > ../fixtures/protobuf.jsonl.gz
//
// Lines are {"written", "served", "protobuf"}: the FNV-1a sum of the object's text in the vector (a name for generated objects), the JSON
// that an API server returns, and the protobuf it stores, with its envelope, in hexadecimal, which compresses better than base64.
package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand"
	"os"
	"slices"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"
)

// The number of generated objects of each kind.
const madeUp = 24

var kinds = []string{
	"v1/Pod", "v1/Node", "v1/Namespace", "v1/Service", "v1/ReplicationController", "apps/v1/ReplicaSet", "apps/v1/StatefulSet",
	"policy/v1/PodDisruptionBudget", "v1/PersistentVolume", "v1/PersistentVolumeClaim", "storage.k8s.io/v1/StorageClass",
	"storage.k8s.io/v1/CSINode", "storage.k8s.io/v1/CSIDriver", "storage.k8s.io/v1/CSIStorageCapacity",
	"storage.k8s.io/v1/VolumeAttachment", "resource.k8s.io/v1/DeviceClass", "resource.k8s.io/v1/ResourceClaim",
	"resource.k8s.io/v1/ResourceSlice",
}

type line struct {
	Written  string          `json:"written"`
	Served   json.RawMessage `json:"served"`
	Protobuf string          `json:"protobuf"`
}

var (
	asProtobuf = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	asJSON     = jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, jsonserializer.SerializerOptions{})
)

// serve returns an object in both encodings.
func serve(object runtime.Object) (line, error) {
	var stored, served bytes.Buffer
	if err := asProtobuf.Encode(object, &stored); err != nil {
		return line{}, err
	}
	kept, _, err := asProtobuf.Decode(stored.Bytes(), nil, nil)
	if err != nil {
		return line{}, err
	}
	if err := asJSON.Encode(kept, &served); err != nil {
		return line{}, err
	}
	return line{Served: bytes.TrimSpace(served.Bytes()), Protobuf: hex.EncodeToString(stored.Bytes())}, nil
}

func vectors(file string) (io.Reader, error) {
	content, err := os.ReadFile(file)
	if err != nil || !strings.HasSuffix(file, ".gz") {
		return bytes.NewReader(content), err
	}
	return gzip.NewReader(bytes.NewReader(content))
}

// recorded writes the distinct objects of a file of vectors.
func recorded(file string, seen map[string]bool, out *json.Encoder) error {
	reader, err := vectors(file)
	if err != nil {
		return err
	}
	lines := bufio.NewReaderSize(reader, 1<<20)
	for {
		text, err := lines.ReadBytes('\n')
		if len(text) == 0 && err == io.EOF {
			return nil
		}
		var vector struct {
			Scenario struct{ Objects, Pods []json.RawMessage }
		}
		if err := json.Unmarshal(text, &vector); err != nil {
			return err
		}
		for _, written := range append(vector.Scenario.Objects, vector.Scenario.Pods...) {
			if seen[string(written)] {
				continue
			}
			seen[string(written)] = true
			object, kind, err := asJSON.Decode(written, nil, nil)
			if err != nil {
				return fmt.Errorf("%s: %w", written, err)
			}
			if !slices.Contains(kinds, kind.GroupVersion().String()+"/"+kind.Kind) {
				continue
			}
			both, err := serve(object)
			if err != nil {
				return err
			}
			sum := fnv.New64a()
			sum.Write(written)
			both.Written = fmt.Sprintf("%016x", sum.Sum64())
			if err := out.Encode(both); err != nil {
				return err
			}
		}
	}
}

func filler(random *rand.Rand) *randfill.Filler {
	amounts := []string{"0", "1", "100m", "1500m", "1Gi", "512Mi", "3k", "1e3", "0.5", "9223372036854775807"}
	operators := []string{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}
	return randfill.New().RandSource(random).NilChance(0.6).NumElements(1, 2).MaxDepth(12).Funcs(
		func(quantity *resource.Quantity, c randfill.Continue) {
			*quantity = resource.MustParse(amounts[c.Intn(len(amounts))])
		},
		func(at *metav1.Time, c randfill.Continue) {
			if c.Bool() {
				*at = metav1.Unix(c.Int63n(4_000_000_000)-1_000_000_000, 0)
			}
		},
		func(at *metav1.MicroTime, c randfill.Continue) {
			*at = metav1.NewMicroTime(time.Unix(c.Int63n(4_000_000_000), 0))
		},
		func(operator *metav1.LabelSelectorOperator, c randfill.Continue) {
			*operator = metav1.LabelSelectorOperator(operators[c.Intn(len(operators))])
		},
		func(raw *runtime.RawExtension, _ randfill.Continue) { raw.Raw = []byte(`{"a":1}`) },
		func(fields *metav1.FieldsV1, _ randfill.Continue) { fields.Raw = []byte(`{"f:a":{}}`) },
		func(entries *[]metav1.ManagedFieldsEntry, c randfill.Continue) {
			*entries = []metav1.ManagedFieldsEntry{{Manager: c.String(8), FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:a":{}}`)}}}
		},
		func(annotations *map[string]string, c randfill.Continue) {
			known := []string{"volume.beta.kubernetes.io/storage-class", "pv.kubernetes.io/bind-completed", "volume.kubernetes.io/selected-node",
				"resource.kubernetes.io/extended-resource-claim"}
			*annotations = map[string]string{c.String(6): c.String(12), known[c.Intn(len(known))]: c.String(8)}
		},
	)
}

// invented writes generated objects of every kind.
func invented(out *json.Encoder) error {
	for number, name := range kinds {
		at := strings.LastIndex(name, "/")
		version, err := schema.ParseGroupVersion(name[:at])
		if err != nil {
			return err
		}
		kind := version.WithKind(name[at+1:])
		fill := filler(rand.New(rand.NewSource(int64(number))))
		for count := range madeUp {
			object, err := scheme.Scheme.New(kind)
			if err != nil {
				return err
			}
			fill.Fill(object)
			if described, err := apimeta.Accessor(object); err == nil && count%2 == 0 {
				described.SetFinalizers(append(described.GetFinalizers(), "resource.kubernetes.io/delete-protection"))
			}
			object.GetObjectKind().SetGroupVersionKind(kind)
			both, err := serve(object)
			if err != nil {
				return err
			}
			both.Written = "random"
			if err := out.Encode(both); err != nil {
				return err
			}
		}
	}
	return nil
}

func run(files []string) error {
	out := bufio.NewWriter(os.Stdout)
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	seen := map[string]bool{}
	for _, file := range files {
		if err := recorded(file, seen, lines); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	if err := invented(lines); err != nil {
		return err
	}
	for _, name := range []string{"small", "production"} {
		both, err := serve(typical()[name])
		if err != nil {
			return err
		}
		both.Written = name
		if err := lines.Encode(both); err != nil {
			return err
		}
	}
	return out.Flush()
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "protobuf:", err)
		os.Exit(1)
	}
}
