// coverage tells which branches of upstream's plugins the golden vectors meet, and why the others are not met.
//
//	coverage PROFILE REASONS VECTORS...
//
// PROFILE is what `go tool covdata textfmt` writes of the oracle's run over the vectors; REASONS says of what is not met why not
// (reasons.txt beside this file tells its form). Prints tests/golden/COVERAGE.md. Exits 1 when something is not met and nobody says
// why, or when a reason is given for nothing, so that the table stays true.
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
		return fmt.Errorf("%d blocks are not met, and no reason is given", len(unexplained))
	case len(idle) > 0:
		return fmt.Errorf("reasons for what is met, or is not there: %s", strings.Join(idle, "; "))
	}
	return nil
}

// explain gives each block that is not met its reason, and returns those that have none.
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
