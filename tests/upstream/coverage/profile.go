package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"sort"
	"strings"
)

// roots are prefixes that are removed from package names, for shorter lines.
var roots = []string{"k8s.io/kubernetes/pkg/scheduler/framework/plugins/", "k8s.io/kubernetes/pkg/scheduler/", "k8s.io/"}

// block is a basic block of upstream's source.
type block struct {
	file, function, text string
	line, statements     int
	met                  bool
	reason               *reason
}

// plugin is the directory of the block.
func (b *block) plugin() string { return path.Dir(b.file) }

func (b *block) firstLines(count int) string {
	var lines []string
	for _, line := range strings.Split(b.text, "\n") {
		if line = strings.TrimSpace(line); line != "" && line != "{" && len(lines) < count {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ; ")
}

// readProfile reads a profile and the source files it refers to.
func readProfile(name string) ([]*block, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	met, statements := map[string]bool{}, map[string]int{}
	for _, line := range strings.Split(string(text), "\n") {
		var count, hits int
		at := strings.LastIndex(line, " ")
		if at < 0 || strings.HasPrefix(line, "mode:") || strings.Contains(line, "/tests/upstream/") {
			continue
		}
		at = strings.LastIndex(line[:at], " ")
		if _, err := fmt.Sscanf(line[at:], "%d %d", &count, &hits); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		met[line[:at]], statements[line[:at]] = met[line[:at]] || hits > 0, count
	}
	places := make([]string, 0, len(met))
	for place := range met {
		places = append(places, place)
	}
	sort.Strings(places)
	sources := sources{}
	var blocks []*block
	for _, place := range places {
		file, span, _ := strings.Cut(place, ":")
		var from, fromColumn, to, toColumn int
		if _, err := fmt.Sscanf(span, "%d.%d,%d.%d", &from, &fromColumn, &to, &toColumn); err != nil {
			return nil, fmt.Errorf("%q: %w", place, err)
		}
		source, err := sources.of(file)
		if err != nil {
			return nil, err
		}
		b := &block{line: from, statements: statements[place], met: met[place], function: source.function(from)}
		b.text = source.text(from, fromColumn, to, toColumn)
		b.file = file
		for _, root := range roots {
			b.file = strings.TrimPrefix(b.file, root)
		}
		if path.Dir(b.file) == "." {
			b.file = "plugins/" + b.file
		}
		blocks = append(blocks, b)
	}
	sort.SliceStable(blocks, func(i, j int) bool {
		return blocks[i].file < blocks[j].file || blocks[i].file == blocks[j].file && blocks[i].line < blocks[j].line
	})
	return blocks, nil
}

type source struct {
	lines     []string
	functions []function
}

type function struct {
	name     string
	from, to int
}

// sources are files by their import path.
type sources map[string]*source

func (s sources) of(file string) (*source, error) {
	if known := s[file]; known != nil {
		return known, nil
	}
	folder, err := exec.Command("go", "list", "-f", "{{.Dir}}", path.Dir(file)).Output()
	if err != nil {
		return nil, fmt.Errorf("cannot find %s: %w", file, err)
	}
	name := path.Join(strings.TrimSpace(string(folder)), path.Base(file))
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	positions := token.NewFileSet()
	parsed, err := parser.ParseFile(positions, name, text, 0)
	if err != nil {
		return nil, err
	}
	read := &source{lines: strings.Split(string(text), "\n")}
	for _, declared := range parsed.Decls {
		if f, ok := declared.(*ast.FuncDecl); ok {
			read.functions = append(read.functions, function{f.Name.Name, positions.Position(f.Pos()).Line, positions.Position(f.End()).Line})
		}
	}
	s[file] = read
	return read, nil
}

func (s *source) function(line int) string {
	for _, f := range s.functions {
		if f.from <= line && line <= f.to {
			return f.name
		}
	}
	return "-"
}

func (s *source) text(from, fromColumn, to, toColumn int) string {
	lines := append([]string{}, s.lines[from-1:to]...)
	lines[len(lines)-1] = lines[len(lines)-1][:toColumn-1]
	lines[0] = lines[0][fromColumn-1:]
	return strings.Join(lines, "\n")
}
