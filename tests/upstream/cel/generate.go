package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"sort"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
)

// devices are those that generated expressions are evaluated for.
var devices = []string{
	`{"driver":"gpu.example.com","attributes":{"model":{"string":"a100"},"n":{"int":3},"ok":{"bool":true},"ver":{"version":"1.2.3-rc.1+b"},` +
		`"other.example.com/x":{"string":"héllo"},"gpu.example.com/big":{"int":9223372036854775807}},` +
		`"capacity":{"mem":"40Gi","other.example.com/c":"1500m","odd":"1.5Gi"}}`,
	`{"driver":"d","multiple":true,"attributes":{"d/model":{"string":""},"n":{"int":-1},"ok":{"bool":false},"ver":{"version":"0.0.1"}},"capacity":{"mem":"0"}}`,
	`{"driver":"gpu.example.com"}`,
}

// literals are expressions of each type, by the name of the type.
var literals = map[string][]string{
	"bool":   {"true", "false", "true", "false", "device.allowMultipleAllocations", "has(device.attributes['gpu.example.com'].model)", "1 / 0 == 1"},
	"int":    {"0", "1", "2", "-1", "7", "10", "63", "9223372036854775807", "-9223372036854775808", "0x1F", "size(device.driver)", "1 / 0"},
	"uint":   {"0u", "1u", "42u", "18446744073709551615u", "0xFFu"},
	"double": {"0.0", "1.0", "-1.5", "3.25", "1e21", "1e-7", "1e308", "2147483648.0", "123456.7", "0.1", "-0.0", "1.0 / 0.0", "0.0 / 0.0"},
	"string": {"''", "'a'", "'abc'", "'héllo wörld'", "'a,b,c'", "'  x '", "\"q\\\"\\n\"", "'1'", "'-12'", "'1.5'", "'true'", "'10Gi'", "'1.2.3'", "'v1.02'",
		"'192.168.0.1'", "'fd00::1'", "'10.0.0.0/8'", "'fd00::/64'", "'https://u:p@a.example.com:8080/p%20q?x=1&y=2&x=3#f'", "'1h30m'",
		"'2023-05-28T00:00:00Z'", "'2023-05-28T01:02:03.5+02:00'", "'Europe/Paris'", "'-03:30'", "'[a-z]+'", "'(a)(b)'", "'('", "'^a.*c$'", "'(a{40}b*){25}'", "'((a{40}){0}b{2,}){501}'", "'a-'", "'a_-'", "'%s and %d'", "device.driver",
		"'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'", "'dns-label'", "'A_b.C'", "'123e4567-e89b-12d3-a456-426614174000'", "'aGVsbG8='", "'x'"},
	"bytes":                     {"b''", "b'abc'", "b'\\xff'", "b'h\\303\\251'"},
	"null_type":                 {"null"},
	"google.protobuf.Duration":  {"duration('0s')", "duration('1h30m')", "duration('-1.5s')", "duration('1ns')", "duration('2562047h')"},
	"google.protobuf.Timestamp": {"timestamp('1970-01-01T00:00:00Z')", "timestamp('2023-05-28T01:02:03.456+02:00')", "timestamp(1700000000)", "timestamp('9999-12-31T23:59:59Z')"},
	"kubernetes.Quantity":       {"quantity('1')", "quantity('10Gi')", "quantity('1500m')", "quantity('-3k')", "quantity('1.5Gi')", "quantity('1e3')", "device.capacity['gpu.example.com'].mem", "quantity('12345678901234567890')",
		"quantity('1.0000000000000000000000000000000000001Gi')", "quantity('0.00000000000000000000000001Ei')", "quantity('7.99999999999999999999Ei')"},
	"kubernetes.Semver":         {"semver('1.2.3')", "semver('1.2.3-rc.1')", "semver('1.2.3-rc.2+x')", "semver('v01.2', true)", "semver('10.0.0')"},
	"net.IP":                    {"ip('192.168.0.1')", "ip('::1')", "ip('fd00::1')", "ip('127.0.0.1')", "ip('224.0.0.1')", "ip('0.0.0.0')", "ip('169.254.1.1')"},
	"net.CIDR":                  {"cidr('192.168.0.0/16')", "cidr('10.1.2.3/8')", "cidr('fd00::/64')", "cidr('0.0.0.0/0')", "cidr('fd00::1/128')"},
	"kubernetes.URL":            {"url('https://a.example.com:8080/p?x=1')", "url('http://[::1]:80')", "url('/only/path')", "url('http://h/%20?q=a%20b')"},
	"kubernetes.NamedFormat":    {"format.dns1123Label()", "format.dns1123Subdomain()", "format.dns1035Label()", "format.qualifiedName()", "format.dns1123LabelPrefix()", "format.labelValue()", "format.uri()", "format.uuid()", "format.byte()", "format.date()", "format.datetime()", "format.dns1035LabelPrefix()", "format.dns1123SubdomainPrefix()"},
	"google.protobuf.Any":       {"device.attributes['gpu.example.com'].model", "device.attributes['gpu.example.com'].n", "device.attributes['gpu.example.com'].ok", "device.attributes['gpu.example.com'].ver", "device.attributes['no'].x", "device.attributes['other.example.com'].x", "device.attributes['gpu.example.com']['big']", "device.attributes[device.driver].n"},
	"kubernetes.DRADevice":      {"device"},
	"type":                      {"int", "string", "type(1)", "google.protobuf.Duration", "list", "net.IP"},
}

// simple are the types that parameters stand for.
var simple = []string{"bool", "int", "uint", "double", "string", "bytes", "google.protobuf.Duration", "google.protobuf.Timestamp", "kubernetes.Quantity", "kubernetes.Semver",
	"net.IP", "net.CIDR", "kubernetes.URL", "kubernetes.NamedFormat", "google.protobuf.Any", "int", "string", "string", "int", "bool"}

type overload struct {
	function string
	member   bool
	args     []*types.Type
	result   *types.Type
}

type generator struct {
	random    *rand.Rand
	overloads []overload
	byResult  map[string][]overload
	variable  int
	inScope   map[string][]string
}

var operators = map[string]string{"_+_": "+", "_-_": "-", "_*_": "*", "_/_": "/", "_%_": "%", "_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">=", "_==_": "==", "_!=_": "!=",
	"@in": "in", "_&&_": "&&", "_||_": "||"}

// generate prints expressions with devices: for each overload some, and random ones on top.
func generate(env *cel.Env, count int) {
	g := &generator{random: rand.New(rand.NewSource(1)), byResult: map[string][]overload{}, inScope: map[string][]string{}}
	functions := env.Functions()
	names := make([]string, 0, len(functions))
	for name := range functions {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if functions[name].IsDeclarationDisabled() || strings.HasPrefix(name, "cel.@") || strings.HasPrefix(name, "@") && name != "@in" {
			continue
		}
		for _, o := range functions[name].OverloadDecls() {
			if strings.Contains(fmt.Sprint(o.ArgTypes()), "authorization") {
				continue
			}
			found := overload{name, o.IsMemberFunction(), o.ArgTypes(), o.ResultType()}
			g.overloads = append(g.overloads, found)
			key := o.ResultType().TypeName()
			g.byResult[key] = append(g.byResult[key], found)
		}
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	emit := func(expression string) {
		device := devices[0]
		if g.random.Intn(4) == 0 {
			device = devices[g.random.Intn(len(devices))]
		}
		if len(expression) > 2000 {
			return
		}
		if err := encoder.Encode(&line{Expression: expression, Device: json.RawMessage(device)}); err != nil {
			panic(err)
		}
	}
	for _, o := range g.overloads {
		for range 6 {
			emit(g.call(o, 0))
		}
		for range 3 {
			emit(g.dynamic(o))
		}
	}
	for range count {
		switch g.random.Intn(3) {
		case 0:
			emit(g.of("bool", 1+g.random.Intn(4)))
		case 1:
			emit(g.of(g.pick(simple), 1+g.random.Intn(3)))
		default:
			emit(g.macro(1 + g.random.Intn(3)))
		}
	}
}

func (g *generator) pick(from []string) string { return from[g.random.Intn(len(from))] }

// of returns an expression of a simple type, with calls nested so deep.
func (g *generator) of(name string, depth int) string {
	if g.random.Intn(40) == 0 {
		name = g.pick(simple)
	}
	if known := g.inScope[name]; len(known) > 0 && g.random.Intn(2) == 0 {
		return g.pick(known)
	}
	if depth <= 0 || g.random.Intn(5) == 0 {
		text := g.pick(literals[name])
		if g.random.Intn(25) == 0 {
			return "dyn(" + text + ")"
		}
		return text
	}
	switch g.random.Intn(12) {
	case 0:
		return "(" + g.of("bool", depth-1) + " ? " + g.of(name, depth-1) + " : " + g.of(name, depth-1) + ")"
	case 1:
		return "[" + g.of(name, depth-1) + ", " + g.of(name, depth-1) + "][" + g.of("int", 0) + "]"
	case 2:
		return "{" + g.of("string", 0) + ": " + g.of(name, depth-1) + "}[" + g.of("string", 0) + "]"
	case 3:
		return "optional.of(" + g.of(name, depth-1) + ").orValue(" + g.of(name, depth-1) + ")"
	case 4:
		return "{'k': " + g.of(name, depth-1) + "}.?" + g.pick([]string{"k", "z"}) + ".orValue(" + g.of(name, depth-1) + ")"
	case 5:
		variable := g.enter(name)
		value, body := g.of(name, depth-1), g.of(name, depth-1)
		g.leave(name)
		return "cel.bind(" + variable + ", " + value + ", " + body + ")"
	}
	if name == "bool" && g.random.Intn(3) == 0 {
		return "(" + g.macro(depth-1) + ")"
	}
	candidates := g.byResult[name]
	if len(candidates) == 0 || g.random.Intn(8) == 0 {
		return g.pick(literals[name])
	}
	return g.call(candidates[g.random.Intn(len(candidates))], depth-1)
}

func (g *generator) enter(name string) string {
	g.variable++
	variable := fmt.Sprintf("v%d", g.variable%7)
	g.inScope[name] = append(g.inScope[name], variable)
	return variable
}

func (g *generator) leave(name string) { g.inScope[name] = g.inScope[name][:len(g.inScope[name])-1] }

// typed returns an expression of any type; parameters stand for what `bound` says.
func (g *generator) typed(t *types.Type, depth int, bound map[string]string) string {
	switch t.Kind() {
	case types.TypeParamKind:
		name := t.TypeName()
		if bound[name] == "" {
			bound[name] = g.pick(simple)
		}
		return g.of(bound[name], depth)
	case types.DynKind:
		return g.of(g.pick(simple), depth)
	case types.ListKind:
		if g.random.Intn(6) == 0 {
			return "[]"
		}
		items := make([]string, 1+g.random.Intn(4))
		for i := range items {
			items[i] = g.typed(t.Parameters()[0], depth, bound)
		}
		text := "[" + strings.Join(items, ", ") + "]"
		if g.random.Intn(6) == 0 {
			text = "(" + text + " + " + g.typed(t, 0, bound) + ")"
		}
		return text
	case types.MapKind:
		return "{" + g.typed(t.Parameters()[0], 0, bound) + ": " + g.typed(t.Parameters()[1], depth, bound) + "}"
	case types.OpaqueKind:
		if t.TypeName() == "optional_type" {
			switch g.random.Intn(4) {
			case 0:
				return "optional.none()"
			case 1:
				return "{'k': " + g.typed(t.Parameters()[0], depth, bound) + "}[?" + g.pick([]string{"'k'", "'z'"}) + "]"
			default:
				return "optional.of(" + g.typed(t.Parameters()[0], depth, bound) + ")"
			}
		}
	}
	return g.of(t.TypeName(), depth)
}

func (g *generator) call(o overload, depth int) string {
	bound := map[string]string{}
	args := make([]string, len(o.args))
	for i, t := range o.args {
		args[i] = g.typed(t, depth, bound)
	}
	return g.write(o, args)
}

// dynamic calls an overload with arguments whose types are known only at run time, some of them wrong.
func (g *generator) dynamic(o overload) string {
	bound := map[string]string{}
	args := make([]string, len(o.args))
	for i, t := range o.args {
		if g.random.Intn(4) == 0 {
			args[i] = "dyn(" + g.of(g.pick(simple), 0) + ")"
		} else {
			args[i] = "dyn(" + g.typed(t, 0, bound) + ")"
		}
	}
	return g.write(o, args)
}

func (g *generator) write(o overload, args []string) string {
	switch o.function {
	case "!_":
		return "!(" + args[0] + ")"
	case "-_":
		return "-(" + args[0] + ")"
	case "_?_:_":
		return "(" + args[0] + " ? " + args[1] + " : " + args[2] + ")"
	case "_[_]":
		return "(" + args[0] + ")[" + args[1] + "]"
	case "_[?_]":
		return "(" + args[0] + ")[?" + args[1] + "]"
	case "_?._":
		return "(" + args[0] + ").?k"
	}
	if operator, found := operators[o.function]; found {
		return "(" + args[0] + " " + operator + " " + args[1] + ")"
	}
	if o.member {
		return "(" + args[0] + ")." + o.function + "(" + strings.Join(args[1:], ", ") + ")"
	}
	return o.function + "(" + strings.Join(args, ", ") + ")"
}

// macro returns an expression with a macro.
func (g *generator) macro(depth int) string {
	name := g.pick(simple)
	items := make([]string, g.random.Intn(5))
	for i := range items {
		items[i] = g.of(name, depth-1)
	}
	list := "[" + strings.Join(items, ", ") + "]"
	if g.random.Intn(5) == 0 {
		list = "dyn(" + list + ")"
	}
	table := "{'a': " + g.of(name, 0) + ", 'b': " + g.of(name, 0) + "}"
	variable := g.enter(name)
	body, value := g.of("bool", depth-1), g.of(g.pick(simple), depth-1)
	result := g.pick([]string{
		list + ".all(" + variable + ", " + body + ")",
		list + ".exists(" + variable + ", " + body + ")",
		list + ".exists_one(" + variable + ", " + body + ")",
		list + ".map(" + variable + ", " + value + ")",
		list + ".map(" + variable + ", " + body + ", " + value + ")",
		list + ".filter(" + variable + ", " + body + ")",
		list + ".sortBy(" + variable + ", " + value + ")",
		list + ".all(i, " + variable + ", i < 2 && " + body + ")",
		list + ".exists(i, " + variable + ", i > 0 || " + body + ")",
		list + ".existsOne(i, " + variable + ", " + body + ")",
		list + ".transformList(i, " + variable + ", " + value + ")",
		list + ".transformList(i, " + variable + ", " + body + ", " + value + ")",
		list + ".transformMap(i, " + variable + ", " + value + ")",
		table + ".transformMap(k, " + variable + ", " + body + ", " + value + ")",
		table + ".transformMapEntry(k, " + variable + ", {k + k: " + value + "})",
		list + ".transformMapEntry(i, " + variable + ", {i: " + value + "})",
		table + ".map(k, k.upperAscii())",
		table + ".exists(k, k == 'b')",
		"optional.of(" + g.of(name, depth-1) + ").optMap(" + variable + ", " + value + ")",
		table + "[?'a'].optFlatMap(" + variable + ", optional.of(" + value + "))",
		"[?optional.of(" + g.of(name, 0) + "), ?optional.none()]",
		"{?'x': optional.of(" + g.of(name, 0) + "), ?'y': optional.none()}",
		"has(" + table + ".a)",
		"has(" + table + ".?a.b)",
		"device.attributes.all(d, device.attributes[d].size() >= 0)",
		"device.attributes['gpu.example.com'].exists(id, device.attributes['gpu.example.com'][id] == " + g.of(name, 0) + ")",
	})
	g.leave(name)
	return result
}
