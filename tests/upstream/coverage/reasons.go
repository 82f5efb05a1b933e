package main

import (
	"fmt"
	"os"
	"path"
	"strings"
)

// reason says why some blocks are not reached.
type reason struct {
	name, text string
	entries    []*entry
}

// entry is a line of reasons.txt: `file function`, or `file function | text of the block`; stars match anything but slashes.
type entry struct {
	text, file, function, within string
	used                         int
}

func (e *entry) means(b *block) bool {
	file, _ := path.Match(e.file, b.file)
	function, _ := path.Match(e.function, b.function)
	return file && function && strings.Contains(strings.Join(strings.Fields(b.text), " "), e.within)
}

func readReasons(name string) ([]*reason, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var reasons []*reason
	for number, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			name, said, ok := strings.Cut(line[1:], "] ")
			if !ok {
				return nil, fmt.Errorf("line %d: a reason is written [name] text", number+1)
			}
			reasons = append(reasons, &reason{name: name, text: said})
		default:
			place, within, _ := strings.Cut(line, " | ")
			words := strings.Fields(place)
			if len(words) != 2 || len(reasons) == 0 {
				return nil, fmt.Errorf("line %d: an entry is written `file function | text`, below a reason", number+1)
			}
			last := reasons[len(reasons)-1]
			last.entries = append(last.entries, &entry{text: line, file: words[0], function: words[1], within: strings.Join(strings.Fields(within), " ")})
		}
	}
	return reasons, nil
}
