package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
)

// orders does what record does, several times: versions before 1.36 visit the pools of devices in an order of chance. The
// answers that differ from the first one are listed beside it.
func orders(tries int, out string, files []string) error {
	var recorded bytes.Buffer
	for _, file := range files {
		text, err := read(file)
		if err != nil {
			return err
		}
		var all [][][]byte
		for range tries {
			var answers bytes.Buffer
			if err := answer(bufio.NewReader(bytes.NewReader(text)), &answers); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			all = append(all, bytes.Split(bytes.TrimSpace(answers.Bytes()), []byte("\n")))
		}
		for number := range all[0] {
			var first Vector
			var others []json.RawMessage
			seen := map[string]bool{}
			for try := range all {
				var vector Vector
				if err := json.Unmarshal(all[try][number], &vector); err != nil {
					return err
				}
				decisions, err := json.Marshal(vector.Decisions)
				if err != nil {
					return err
				}
				if try == 0 {
					first = vector
				} else if !seen[string(decisions)] {
					others = append(others, decisions)
				}
				seen[string(decisions)] = true
			}
			short := map[string]any{"name": first.Scenario.Name, "decisions": first.Decisions, "error": first.Error}
			if len(others) > 0 {
				short["others"] = others
			}
			line, err := json.Marshal(short)
			if err != nil {
				return err
			}
			recorded.Write(append(line, '\n'))
		}
	}
	return write(out, recorded.Bytes())
}
