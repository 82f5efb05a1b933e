// Writes tests/fixtures/selectors.txt: upstream's results for label selectors and node selectors that are biased to edge cases.
//
//	go run ./selectors > ../fixtures/selectors.txt
//
// Lines, tab-separated: the type (label, required, preferred), the API object as JSON, and either the result for each of the nodes below (1 or 0;
// for preferred the score) or, after an exclamation mark, the error as a JSON string.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

var (
	random = rand.New(rand.NewSource(1))
	nodes  = []v1.Node{
		node("n1", nil), node("n2", labels.Set{"a": "1"}), node("n3", labels.Set{"a": "05", "b": ""}), node("n4", labels.Set{"a": "x", "example.com/b": "2"}),
		node("n5", labels.Set{"b": "-3", "a": "9223372036854775807"}),
	}
	keys = []string{"a", "a", "b", "b", "c", "example.com/b", "", "-a", "a/b/c", "/a", "A_b.c-9", "ex ample/a", "Example.com/a", "a..b/c", "a/", "é",
		strings.Repeat("k", 63), strings.Repeat("k", 64), strings.Repeat("d", 254) + "/k", "a\"b\\\n", "<&>"}
	values = []string{"1", "1", "x", "05", "5", "", "-3", "+3", "2", "9223372036854775807", "9223372036854775808", "not ok", "-", "a-", "é",
		strings.Repeat("v", 63), strings.Repeat("v", 64), "\u2028", "\x01", "\u00a0", "\U0001f600"}
	operators = []string{"In", "In", "NotIn", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Bogus", "", "in", "<\"&é>"}
	fields    = []string{"metadata.name", "metadata.name", "metadata.name", "metadata.namespace", ""}
	names     = []string{"n1", "n2", "n9", "", "N1"}
)

func node(name string, labels labels.Set) v1.Node {
	return v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func pick(from []string) string { return from[random.Intn(len(from))] }

// listed returns some of from: nil, empty or up to three.
func listed(from []string) []string {
	switch n := random.Intn(6); n {
	case 0:
		return nil
	case 1:
		return []string{}
	default:
		list := []string{pick(from)}
		for range n - 3 {
			list = append(list, pick(from))
		}
		return list
	}
}

// harmless makes most picks valid, so that errors occur alone as well as together.
func harmless[T any](valid, any T) T {
	if random.Intn(9) > 0 {
		return valid
	}
	return any
}

func labelSelector() *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	if random.Intn(2) == 0 {
		s.MatchLabels = map[string]string{harmless(pick(keys[:6]), pick(keys)): harmless(pick(values[:6]), pick(values))}
	}
	for range random.Intn(3) {
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: harmless(pick(keys[:6]), pick(keys)), Operator: metav1.LabelSelectorOperator(harmless(pick(operators[:6]), pick(operators))),
			Values: harmless([]string{pick(values[:6])}, listed(values))})
	}
	return s
}

func term() v1.NodeSelectorTerm {
	t := v1.NodeSelectorTerm{}
	for range random.Intn(3) {
		t.MatchExpressions = append(t.MatchExpressions, v1.NodeSelectorRequirement{
			Key: harmless(pick(keys[:6]), pick(keys)), Operator: v1.NodeSelectorOperator(harmless(pick(operators[:8]), pick(operators))),
			Values: harmless([]string{pick(values[:6])}, listed(values))})
	}
	for range max(0, random.Intn(4)-1) {
		t.MatchFields = append(t.MatchFields, v1.NodeSelectorRequirement{
			Key: pick(fields), Operator: v1.NodeSelectorOperator(harmless(pick(operators[:4]), pick(operators))),
			Values: harmless([]string{pick(names)}, listed(names))})
	}
	return t
}

// written encodes the object as JSON and decodes it again, as for a scheduler. Some absent lists become empty.
func written[T any](object T) (string, T) {
	out, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	text := string(out)
	if random.Intn(2) == 0 {
		for _, operator := range operators[:8] {
			text = strings.ReplaceAll(text, `"operator":"`+operator+`"}`, `"operator":"`+operator+`","values":[]}`)
		}
	}
	var read T
	if err := json.Unmarshal([]byte(text), &read); err != nil {
		panic(err)
	}
	return text, read
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	line := func(what, text, answer string, err error) {
		if err != nil {
			quoted, bad := json.Marshal(err.Error())
			if bad != nil {
				panic(bad)
			}
			answer = "!" + string(quoted)
		}
		fmt.Fprintf(out, "%s\t%s\t%s\n", what, text, answer)
	}
	bit := map[bool]string{false: "0", true: "1"}
	for range 400 {
		text, object := written(labelSelector())
		selector, err := metav1.LabelSelectorAsSelector(object)
		answer := ""
		for i := 0; err == nil && i < len(nodes); i++ {
			answer += bit[selector.Matches(labels.Set(nodes[i].Labels))]
		}
		line("label", text, answer, err)
	}
	for range 400 {
		made := &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term()}}
		for random.Intn(2) == 0 {
			made.NodeSelectorTerms = append(made.NodeSelectorTerms, term())
		}
		text, object := written(made)
		selector := nodeaffinity.NewLazyErrorNodeSelector(object)
		answer := ""
		for i := range nodes {
			matches, _ := selector.Match(&nodes[i])
			answer += bit[matches]
		}
		line("required", text, answer, nil)
	}
	for range 400 {
		var made []v1.PreferredSchedulingTerm
		for range 1 + random.Intn(3) {
			made = append(made, v1.PreferredSchedulingTerm{Weight: int32(random.Intn(3)), Preference: term()})
		}
		text, object := written(made)
		terms, err := nodeaffinity.NewPreferredSchedulingTerms(object)
		var scores []string
		for i := 0; err == nil && i < len(nodes); i++ {
			scores = append(scores, fmt.Sprint(terms.Score(&nodes[i])))
		}
		line("preferred", text, strings.Join(scores, " "), err)
	}
}
