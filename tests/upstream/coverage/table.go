package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
)

// counts are the numbers of vectors in which a plugin rejects and scores.
type counts struct{ rejects, scores int }

// folders maps plugins to their directories, where these are not the lower-case plugin names.
var folders = map[string]string{
	"NodeResourcesFit": "noderesources", "NodeResourcesBalancedAllocation": "noderesources",
}

func readVectors(files []string) (map[string]*counts, error) {
	told := map[string]*counts{}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<26)
		for lines.Scan() {
			if err := count(lines.Bytes(), told); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		if err := lines.Err(); err != nil {
			return nil, err
		}
		file.Close()
	}
	return told, nil
}

func count(line []byte, told map[string]*counts) error {
	type verdict struct{ Plugin string }
	var vector struct {
		Decisions []struct {
			PreFilter  *verdict
			Rejected   map[string]verdict
			Scores     map[string]map[string]int64
			PostFilter string
		}
	}
	if err := json.Unmarshal(line, &vector); err != nil {
		return err
	}
	rejects, scores := map[string]bool{}, map[string]bool{}
	for _, decision := range vector.Decisions {
		if decision.PreFilter != nil {
			rejects[decision.PreFilter.Plugin] = true
		}
		for _, verdict := range decision.Rejected {
			rejects[verdict.Plugin] = true
		}
		if decision.PostFilter != "" {
			rejects["DefaultPreemption"] = true
		}
		for _, node := range decision.Scores {
			for plugin := range node {
				scores[plugin] = true
			}
		}
	}
	of := func(plugin string) *counts {
		folder := folders[plugin]
		if folder == "" {
			folder = strings.ToLower(plugin)
		}
		if told[folder] == nil {
			told[folder] = &counts{}
		}
		return told[folder]
	}
	for plugin := range rejects {
		of(plugin).rejects++
	}
	for plugin := range scores {
		of(plugin).scores++
	}
	return nil
}

// table prints the reached blocks by package, and then the unreached ones with their reasons.
func table(blocks []*block, reasons []*reason, told map[string]*counts) {
	type sum struct{ all, met, explained int }
	sums := map[string]*sum{}
	for _, b := range blocks {
		s := sums[b.plugin()]
		if s == nil {
			s = &sum{}
			sums[b.plugin()] = s
		}
		s.all++
		switch {
		case b.met:
			s.met++
		case b.reason != nil:
			s.explained++
		}
	}
	fmt.Print(head)
	for _, plugin := range sorted(sums) {
		s := sums[plugin]
		share := fmt.Sprintf("%d (%d%%)", s.met, 100*s.met/s.all)
		rejects, scores := "", ""
		if c := told[plugin]; c != nil {
			rejects, scores = fmt.Sprint(c.rejects), fmt.Sprint(c.scores)
		}
		fmt.Printf("| %s | %s | %s | %d | %s | %d |\n", plugin, rejects, scores, s.all, share, s.explained)
	}
	fmt.Print("\n## Blocks that are not reached\n")
	for _, reason := range reasons {
		var lines []string
		at := map[string]int{}
		for _, b := range blocks {
			if b.reason != reason {
				continue
			}
			key := b.file + " `" + b.function + "`"
			if at[key] == 0 {
				lines = append(lines, key)
			}
			at[key]++
		}
		fmt.Printf("\n**%s**: %s\n\n", reason.name, reason.text)
		byFile := map[string][]string{}
		for _, line := range lines {
			file, function, _ := strings.Cut(line, " ")
			byFile[file] = append(byFile[file], fmt.Sprintf("%s %d", function, at[line]))
		}
		for _, file := range sorted(byFile) {
			fmt.Printf("- %s: %s\n", file, strings.Join(byFile[file], ", "))
		}
	}
}

const head = `# Which branches of upstream the golden vectors reach

Written by ` + "`make golden-coverage`" + `, which runs all vectors of this directory through upstream's code with Go's coverage. A block is a basic block of that
code. *Rejects* and *Scores* count the vectors in which the plugin rejects a node (for DefaultPreemption: returns a message) or scores one. *Left out* are
blocks that no recorded decision reaches, with the reasons below.

| Package | Rejects | Scores | Blocks | Reached | Left out |
|---|---|---|---|---|---|
`

func sorted[V any](of map[string]V) []string {
	keys := make([]string, 0, len(of))
	for key := range of {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
