// coverage reports which branches of upstream's plugins the golden vectors reach, and why not the others.
//
//	coverage PROFILE REASONS VECTORS...
//
// PROFILE is the output of `go tool covdata textfmt` for the oracle's run over the vectors. REASONS gives the reasons for unreached blocks
// (see reasons.txt beside this file for its format). Prints tests/golden/COVERAGE.md. Exits 1 if an unreached block has no reason, or if a
// reason matches no unreached block.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: coverage PROFILE REASONS VECTORS...")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "coverage:", err)
		os.Exit(1)
	}
}

func run(profile, reasonsFile string, vectors []string) error {
	blocks, err := readProfile(profile)
	if err != nil {
		return err
	}
	reasons, err := readReasons(reasonsFile)
	if err != nil {
		return err
	}
	told, err := readVectors(vectors)
	if err != nil {
		return err
	}
	unexplained := explain(blocks, reasons)
	table(blocks, reasons, told)
	for _, b := range unexplained {
		fmt.Fprintf(os.Stderr, "%s %s line %d: %s\n", b.file, b.function, b.line, b.firstLines(2))
	}
	var idle []string
	for _, reason := range reasons {
		for _, entry := range reason.entries {
			if entry.used == 0 {
				idle = append(idle, entry.text)
			}
		}
	}
	switch {
	case len(unexplained) > 0:
		return fmt.Errorf("%d blocks are not reached, and reasons.txt gives no reason", len(unexplained))
	case len(idle) > 0:
		return fmt.Errorf("reasons that match no unreached block: %s", strings.Join(idle, "; "))
	}
	return nil
}

// explain assigns a reason to each unreached block, and returns the blocks without one.
func explain(blocks []*block, reasons []*reason) (unexplained []*block) {
	for _, b := range blocks {
		if b.met {
			continue
		}
		for _, reason := range reasons {
			if entry := slices.IndexFunc(reason.entries, func(e *entry) bool { return e.means(b) }); entry >= 0 {
				reason.entries[entry].used++
				b.reason = reason
				break
			}
		}
		if b.reason == nil {
			unexplained = append(unexplained, b)
		}
	}
	return unexplained
}
