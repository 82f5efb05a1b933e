// Records what Kubernetes' own CEL environment for device selectors makes of expressions.
//
//	zcat ../../crates/cel/tests/recorded.jsonl.gz | go run ./cel | gzip -9n > recorded.jsonl.gz
//	go run ./cel -declarations > declarations.txt
//	go run ./cel -generate 5000 > expressions.jsonl
//
// Each line of the input is a JSON object: `e` is the expression, `d` the device (see device below; null stands for the device without attributes).
// Results in the input are ignored. Each line of the output repeats both and adds what the compiler (stored expressions, the gates as in kube-scheduler) and the evaluation say:
//
//	t     the type of the result
//	v     the result, as JSON or as text in the notation of render
//	x     the error of the evaluation
//	k     the error of the compilation
//	c     the cost of the evaluation
//	m     the match (DeviceMatches), if the expression is a valid selector: true, false, or the error's text
//	s     the static estimate of the cost (max), if the expression is a valid selector
//	n     whether the environment for new expressions accepts it, if that differs
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	dracel "k8s.io/dynamic-resource-allocation/cel"

	"github.com/blang/semver/v4"
)

// device is what the input says of a device: the fields of the API type, and quantities as text.
type device struct {
	Driver     string                                                    `json:"driver"`
	Multiple   bool                                                      `json:"multiple,omitempty"`
	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes,omitempty"`
	Capacity   map[resourceapi.QualifiedName]string                      `json:"capacity,omitempty"`
}

type line struct {
	Expression string          `json:"e"`
	Device     json.RawMessage `json:"d,omitempty"`
	Type       string          `json:"t,omitempty"`
	Value      *string         `json:"v,omitempty"`
	Error      string          `json:"x,omitempty"`
	Compile    string          `json:"k,omitempty"`
	Cost       *uint64         `json:"c,omitempty"`
	Match      *string         `json:"m,omitempty"`
	Estimate   *uint64         `json:"s,omitempty"`
	New        *bool           `json:"n,omitempty"`
}

var features = dracel.Features{EnableConsumableCapacity: true}

func main() {
	compiler := dracel.GetCompiler(features)
	base := compiler.CompileCELExpression("true", dracel.Options{})
	if len(os.Args) > 1 && os.Args[1] == "-declarations" {
		declarations(base.Environment)
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "-generate" {
		count, err := strconv.Atoi(os.Args[2])
		if err != nil {
			panic(err)
		}
		generate(base.Environment, count)
		return
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<24)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for in.Scan() {
		var l line
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			fmt.Fprintln(os.Stderr, err, in.Text())
			os.Exit(1)
		}
		l = line{Expression: l.Expression, Device: l.Device}
		record(&l, base.Environment)
		if random(l, base.Environment) {
			continue
		}
		if err := encoder.Encode(&l); err != nil {
			panic(err)
		}
	}
}

// random says whether the result depends on the order of a map, which differs each time. Such lines are left out.
func random(l line, env *cel.Env) bool {
	first, _ := json.Marshal(l)
	if !strings.ContainsAny(l.Expression, "{") && !strings.Contains(l.Expression, "device") {
		return false
	}
	for range 12 {
		again := line{Expression: l.Expression, Device: l.Device}
		record(&again, env)
		if second, _ := json.Marshal(again); string(first) != string(second) {
			return true
		}
	}
	return false
}

func record(l *line, env *cel.Env) {
	defer func() {
		if r := recover(); r != nil {
			l.Compile = fmt.Sprintf("panic: %v", r)
		}
	}()
	d := parse(l.Device)
	official(l, d)
	ast, issues := env.Compile(l.Expression)
	if issues != nil {
		l.Compile = issues.String()
		return
	}
	l.Type = ast.OutputType().String()
	program, err := env.Program(ast, cel.CostLimit(resourceapi.CELSelectorExpressionMaxCost), cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	if err != nil {
		l.Compile = "program instantiation failed: " + err.Error()
		l.Type = ""
		return
	}
	vars, err := variables(env, d)
	if err != nil {
		l.Error = err.Error()
		return
	}
	result, details, err := program.ContextEval(context.Background(), vars)
	if details != nil {
		l.Cost = details.ActualCost()
	}
	if err != nil {
		l.Error = err.Error()
		return
	}
	text := render(result)
	l.Value = &text
}

// official runs the expression as the scheduler does and keeps the outcome.
func official(l *line, d dracel.Device) {
	compiled := dracel.GetCompiler(features).CompileCELExpression(l.Expression, dracel.Options{})
	if compiled.Error != nil {
		return
	}
	if compiled.MaxCost != math.MaxUint64 {
		l.Estimate = &compiled.MaxCost
	}
	mode := environment.NewExpressions
	if fresh := dracel.GetCompiler(features).CompileCELExpression(l.Expression, dracel.Options{EnvType: &mode}); fresh.Error != nil {
		no := false
		l.New = &no
	}
	matches, _, err := compiled.DeviceMatches(context.Background(), d)
	text := strconv.FormatBool(matches)
	if err != nil {
		text = err.Error()
	}
	l.Match = &text
}

func parse(raw json.RawMessage) dracel.Device {
	var d device
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &d); err != nil {
			panic(err)
		}
	}
	capacity := map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}
	for name, text := range d.Capacity {
		capacity[name] = resourceapi.DeviceCapacity{Value: resource.MustParse(text)}
	}
	return dracel.Device{Driver: d.Driver, AllowMultipleAllocations: &d.Multiple, Attributes: d.Attributes, Capacity: capacity}
}

// variables builds the variable `device`, as DeviceMatches does.
func variables(env *cel.Env, d dracel.Device) (map[string]any, error) {
	attributes, capacity := map[string]any{}, map[string]any{}
	for name, attribute := range d.Attributes {
		value, err := attributeValue(attribute)
		if err != nil {
			return nil, fmt.Errorf("attribute %s: %w", name, err)
		}
		domain, id := split(name, d.Driver)
		if attributes[domain] == nil {
			attributes[domain] = map[string]any{}
		}
		attributes[domain].(map[string]any)[id] = value
	}
	for name, c := range d.Capacity {
		domain, id := split(name, d.Driver)
		if capacity[domain] == nil {
			capacity[domain] = map[string]apiservercel.Quantity{}
		}
		capacity[domain].(map[string]apiservercel.Quantity)[id] = apiservercel.Quantity{Quantity: &c.Value}
	}
	adapter := env.CELTypeAdapter()
	empty := adapter.NativeToValue(map[string]any{})
	return map[string]any{"device": map[string]any{
		"driver":                   d.Driver,
		"allowMultipleAllocations": *d.AllowMultipleAllocations,
		"attributes":               domains{types.NewStringInterfaceMap(adapter, attributes), empty},
		"capacity":                 domains{types.NewStringInterfaceMap(adapter, capacity), empty},
	}}, nil
}

// domains finds an empty map for a domain that is missing.
type domains struct {
	traits.Mapper
	empty ref.Val
}

func (d domains) Find(key ref.Val) (ref.Val, bool) {
	if value, found := d.Mapper.Find(key); found {
		return value, true
	}
	return d.empty, true
}

func attributeValue(a resourceapi.DeviceAttribute) (any, error) {
	switch {
	case a.IntValue != nil:
		return *a.IntValue, nil
	case a.BoolValue != nil:
		return *a.BoolValue, nil
	case a.StringValue != nil:
		return *a.StringValue, nil
	case a.VersionValue != nil:
		v, err := semver.Parse(*a.VersionValue)
		if err != nil {
			return nil, fmt.Errorf("parse semantic version: %w", err)
		}
		return apiservercel.Semver{Version: v}, nil
	default:
		return nil, fmt.Errorf("unsupported attribute value")
	}
}

func split(name resourceapi.QualifiedName, domain string) (string, string) {
	if before, after, found := strings.Cut(string(name), "/"); found {
		return before, after
	}
	return domain, string(name)
}

// render writes a value as text. Maps are sorted by the text of their keys.
func render(v ref.Val) string {
	switch v := v.(type) {
	case types.Bool:
		return strconv.FormatBool(bool(v))
	case types.Int:
		return strconv.FormatInt(int64(v), 10)
	case types.Uint:
		return strconv.FormatUint(uint64(v), 10) + "u"
	case types.Double:
		return fmt.Sprintf("double(%016x)", math.Float64bits(float64(v)))
	case types.String:
		text, _ := json.Marshal(string(v))
		return string(text)
	case types.Bytes:
		return fmt.Sprintf("bytes(%x)", []byte(v))
	case types.Null:
		return "null"
	case types.Duration:
		return fmt.Sprintf("duration(%d)", v.Duration.Nanoseconds())
	case types.Timestamp:
		return fmt.Sprintf("timestamp(%d.%09d)", v.Time.Unix(), v.Time.Nanosecond())
	case *types.Optional:
		if !v.HasValue() {
			return "optional.none"
		}
		return "optional(" + render(v.GetValue()) + ")"
	case *types.Type:
		return "type(" + v.TypeName() + ")"
	case apiservercel.Quantity:
		return renderQuantity(v)
	case *apiservercel.Quantity:
		return renderQuantity(*v)
	case apiservercel.Semver:
		return "semver(" + v.Version.String() + ")"
	case apiservercel.IP:
		return "ip(" + v.Addr.String() + ")"
	case apiservercel.CIDR:
		return "cidr(" + v.Prefix.String() + ")"
	case apiservercel.URL:
		return "url(" + v.URL.String() + ")"
	case apiservercel.Format:
		return "format(" + v.Name + ")"
	case traits.Lister:
		var items []string
		for it := v.Iterator(); it.HasNext() == types.True; {
			items = append(items, render(it.Next()))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case traits.Mapper:
		var items []string
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			items = append(items, render(key)+": "+render(v.Get(key)))
		}
		sort.Strings(items)
		return "{" + strings.Join(items, ", ") + "}"
	default:
		return fmt.Sprintf("%T", v)
	}
}

// renderQuantity writes a quantity as an integer and a power of ten, without zeros at the end of a fraction.
func renderQuantity(q apiservercel.Quantity) string {
	number := q.Quantity.DeepCopy()
	digits, exponent := number.AsDec().UnscaledBig().String(), -int64(number.AsDec().Scale())
	for exponent < 0 && strings.HasSuffix(digits, "0") {
		digits, exponent = digits[:len(digits)-1], exponent+1
	}
	switch {
	case strings.Trim(digits, "-") == "" || digits == "0":
		return "quantity(0)"
	case exponent == 0:
		return "quantity(" + digits + ")"
	default:
		return fmt.Sprintf("quantity(%se%d)", digits, exponent)
	}
}

// declarations prints the functions of the environment. A line for each function: its name, and how it is bound: `own` if its overloads have
// implementations of their own, else the arity of its one implementation (1, 2 or *) and the trait that implementation asks of the first argument.
// Below, a line for each overload, in the order of resolution: `m` for a method, its id, types of arguments, type of the result, and the arity of its
// implementation (`-` if it has none); `!` marks one that takes errors as arguments.
func declarations(env *cel.Env) {
	functions := env.Functions()
	names := make([]string, 0, len(functions))
	for name := range functions {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		function := functions[name]
		if function.IsDeclarationDisabled() {
			continue
		}
		bindings, err := function.Bindings()
		if err != nil {
			panic(err)
		}
		arity := map[string]string{}
		how := "own"
		for _, b := range bindings {
			text := "*"
			if b.Unary != nil {
				text = "1"
			} else if b.Binary != nil {
				text = "2"
			}
			if b.NonStrict {
				text += "!"
			}
			arity[b.Operator] = text
			if b.Operator == name && len(bindings) == 1 {
				how = fmt.Sprintf("%s %d", text, b.OperandTrait)
			}
		}
		fmt.Printf("%s\t%s\n", name, how)
		for _, o := range function.OverloadDecls() {
			style := "f"
			if o.IsMemberFunction() {
				style = "m"
			}
			var types []string
			for _, t := range o.ArgTypes() {
				types = append(types, t.String())
			}
			own := arity[o.ID()]
			if own == "" {
				own = "-"
			}
			fmt.Printf("\t%s\t%s\t%s\t%s\t%s\n", style, o.ID(), strings.Join(types, "; "), o.ResultType().String(), own)
		}
	}
}
