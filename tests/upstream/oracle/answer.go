package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/kubernetes/pkg/scheduler"
)

// panics counts those of upstream's own goroutines, which are caught and would otherwise go unseen.
var panics atomic.Int64

func countPanic(context.Context, interface{}) { panics.Add(1) }

// panicIsCounted is how long it takes until a panic is counted: upstream ends the wait for a goroutine that panicked before.
const panicIsCounted = 300 * time.Microsecond

// alone keeps scenarios apart after a panic, of which nobody knows whose it was while several are decided on.
var alone sync.RWMutex

// answer decides on every line of in, several at a time, and writes the answers in the order of the lines.
func answer(in *bufio.Reader, out io.Writer) error {
	type job struct {
		line []byte
		done chan []byte
	}
	workers := runtime.GOMAXPROCS(0)
	jobs, order := make(chan job, workers), make(chan job, 4*workers)
	for range workers {
		go func() {
			for j := range jobs {
				j.done <- answerLine(j.line)
			}
		}()
	}
	written := make(chan error, 1)
	go func() {
		var failed error
		for j := range order {
			text := <-j.done
			if failed == nil {
				_, failed = out.Write(append(text, '\n'))
			}
		}
		written <- failed
	}()
	var failed error
	for failed == nil {
		var line []byte
		if line, failed = in.ReadBytes('\n'); len(bytes.TrimSpace(line)) > 0 {
			j := job{line, make(chan []byte, 1)}
			order <- j
			jobs <- j
		}
	}
	close(jobs)
	close(order)
	if err := <-written; err != nil {
		return err
	}
	if errors.Is(failed, io.EOF) {
		return nil
	}
	return failed
}

func answerLine(line []byte) []byte {
	var vector Vector
	scenario, err := parse(line)
	vector.Scenario = scenario
	if err == nil {
		vector.Decisions, err = decisions(&scenario)
	}
	if err != nil {
		vector.Decisions, vector.Error = nil, err.Error()
	}
	text, err := json.Marshal(vector)
	if err != nil {
		text, _ = json.Marshal(Vector{Error: err.Error()})
	}
	return text
}

// decisions decides on the pods of a scenario, and once more, alone, where upstream panicked meanwhile.
func decisions(scenario *Scenario) ([]Decision, error) {
	alone.RLock()
	before := panics.Load()
	told, err := decideAll(scenario)
	time.Sleep(panicIsCounted)
	panicked := panics.Load() != before
	alone.RUnlock()
	if !panicked {
		return told, err
	}
	alone.Lock()
	defer alone.Unlock()
	before = panics.Load()
	told, err = decideAll(scenario)
	time.Sleep(panicIsCounted)
	if panics.Load() != before {
		return nil, errors.New("upstream panicked")
	}
	return told, err
}

func decideAll(scenario *Scenario) (told []Decision, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			told, err = nil, fmt.Errorf("upstream panicked: %v", cause)
		}
	}()
	c, err := scenario.decode()
	if err != nil {
		return nil, err
	}
	// One worker, so that of several errors the first one is told.
	w, err := newWorld(c.objects, c.config, scheduler.WithParallelism(1))
	if err != nil {
		return nil, err
	}
	defer w.close()
	w.writes = c.writes
	told = []Decision{}
	for i, pod := range c.pods {
		for _, change := range c.changes {
			if change.before != i {
				continue
			}
			if err := w.change(change); err != nil {
				return nil, err
			}
		}
		decision, err := w.decide(pod)
		if err != nil {
			return nil, err
		}
		told = append(told, decision)
	}
	return told, nil
}

// renew rewrites a file of vectors, compressed if its name says so. The file stays as it is when one of its scenarios has no
// answer.
func renew(file string) error {
	text, err := read(file)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := answer(bufio.NewReader(bytes.NewReader(text)), &out); err != nil {
		return err
	}
	for number, line := range bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n")) {
		var vector Vector
		if err := json.Unmarshal(line, &vector); err != nil {
			return err
		}
		if vector.Error != "" {
			return fmt.Errorf("vector %d, %s: %s", number+1, vector.Scenario.Name, vector.Error)
		}
	}
	if bytes.Equal(out.Bytes(), text) {
		return nil
	}
	fmt.Fprintln(os.Stderr, "oracle: other decisions in", file)
	return write(file, out.Bytes())
}

// record writes the decisions on the scenarios of the files to out, one scenario a line, by the scenario's name. The version
// that the golden vectors are of may accept a scenario that this one refuses: then the error stands for the decisions.
func record(out string, files []string) error {
	var recorded bytes.Buffer
	for _, file := range files {
		text, err := read(file)
		if err != nil {
			return err
		}
		var answers bytes.Buffer
		if err := answer(bufio.NewReader(bytes.NewReader(text)), &answers); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, line := range bytes.Split(bytes.TrimSpace(answers.Bytes()), []byte("\n")) {
			var vector Vector
			if err := json.Unmarshal(line, &vector); err != nil {
				return err
			}
			short, err := json.Marshal(map[string]any{"name": vector.Scenario.Name, "decisions": vector.Decisions, "error": vector.Error})
			if err != nil {
				return err
			}
			recorded.Write(append(short, '\n'))
		}
	}
	return write(out, recorded.Bytes())
}

const compressed = ".gz"

func read(file string) ([]byte, error) {
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	if !strings.HasSuffix(file, compressed) {
		return io.ReadAll(opened)
	}
	inflated, err := gzip.NewReader(opened)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(inflated)
}

func write(file string, text []byte) error {
	if strings.HasSuffix(file, compressed) {
		var small bytes.Buffer
		deflated, err := gzip.NewWriterLevel(&small, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := deflated.Write(text); err != nil {
			return err
		}
		if err := deflated.Close(); err != nil {
			return err
		}
		text = small.Bytes()
	}
	return os.WriteFile(file, text, 0o644)
}
