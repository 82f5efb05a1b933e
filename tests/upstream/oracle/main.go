// oracle asks the real kube-scheduler framework of the pinned version what it decides.
//
//	oracle answer < lines                  each line a scenario or a vector; each line out a vector, in the same order
//	oracle renew FILE...                   decides anew on the scenarios of files of vectors, one a line, and rewrites the files
//	oracle record OUT FILE...              decides on the scenarios of files of vectors, and writes the decisions by name, without the scenarios
//	oracle orders TRIES OUT FILE...        the same several times, with all answers, where they depend on the order of pools
//	oracle groups FILE...                  plays the scenarios of pod groups in the files anew, and rewrites the files
//	oracle time --workload W --nodes N ... times upstream's own decision loop, in process and without an API server
//	oracle time-groups FILE                times the cycles of the scenario of pod groups in the file, step by step
//
// A scenario is {"name", "kind", "config", "objects", "pods"}; a vector is {"scenario", "decisions"}. tests/golden/README.md
// says what a decision holds. A scenario that cannot be answered (an object that does not decode, a configuration that is
// refused, a panic upstream) is answered with {"scenario", "error"}; the others are not affected.
//
// Informers are left out: what a scenario holds is put into their stores and told to their handlers in the order written, so
// that an answer depends on nothing but the scenario and costs milliseconds. Extenders, sampling and PreEnqueue are left out
// too; every node is looked at.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
)

const usage = "usage: oracle answer | oracle renew FILE... | oracle record OUT FILE... | oracle orders TRIES OUT FILE... | oracle groups FILE... | oracle time [flags] | oracle time-groups FILE"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("no command given; %s", usage)
	}
	if err := quiet(); err != nil {
		return err
	}
	switch args[0] {
	case "answer":
		return answer(bufio.NewReaderSize(os.Stdin, 1<<20), os.Stdout)
	case "renew":
		for _, file := range args[1:] {
			if err := renew(file); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
		return nil
	case "groups":
		return groups(args[1:])
	case "record":
		if len(args) < 3 {
			return fmt.Errorf("record takes a file to write and files of vectors; %s", usage)
		}
		return record(args[1], args[2:])
	case "orders":
		if len(args) < 4 {
			return fmt.Errorf("orders takes a number of tries, a file to write and files of vectors; %s", usage)
		}
		tries, err := strconv.Atoi(args[1])
		if err != nil || tries < 1 {
			return fmt.Errorf("orders takes a number of tries, not %q; %s", args[1], usage)
		}
		return orders(tries, args[2], args[3:])
	case "time":
		load := defaultLoad()
		flags := flag.NewFlagSet("oracle time", flag.ContinueOnError)
		load.register(flags)
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return load.run(os.Stdout)
	case "time-groups":
		if len(args) != 2 {
			return fmt.Errorf("time-groups takes one file; %s", usage)
		}
		return timeGroups(args[1], os.Stdout)
	default:
		return fmt.Errorf("no command %q; %s", args[0], usage)
	}
}

// quiet silences upstream's logs, lets a panic in one of upstream's goroutines be counted instead of ending the process, and
// has victims deleted before PostFilter returns instead of afterwards, in the background.
func quiet() error {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	utilruntime.ErrorHandlers = nil
	utilruntime.ReallyCrash = false
	utilruntime.PanicHandlers = append(utilruntime.PanicHandlers, countPanic)
	return utilfeature.DefaultMutableFeatureGate.Set("SchedulerAsyncPreemption=false")
}

// version is that of the framework this program is built with.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, module := range info.Deps {
			if module.Path == "k8s.io/kubernetes" {
				return module.Version
			}
		}
	}
	return "of unknown version"
}
