// Command mutation breaks the source of the wheel on purpose, in one place at a
// time, in a copy, and runs the tests to see whether one fails. It prints the
// list and exits with 1 if a mutant survives that is not known to be equivalent.
//
//	go run ./mutation            # all, from the module proof
//	go run ./mutation -only 17   # one, with the output of its tests
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A mutant replaces one text of a file, which must occur there exactly once.
type mutant struct {
	file, old, new string
	same           string // why it is equivalent, if it is
}

var (
	root = flag.String("root", "..", "directory of the root module")
	jobs = flag.Int("jobs", 2, "mutants at once")
	deep = flag.Bool("deep", false, "give survivors the long tests, too")
	from = flag.Int("from", 1, "number of the first mutant")
	only = flag.Int("only", 0, "number of the one mutant to try")
	fast = flag.String("fast", "Lock|Rule|Programs|Reachable|AgreesWithASortedList|TableAgrees|Whatever|TheAlarm|ALoss|Fuzz", "tests to try first")
)

func main() {
	flag.Parse()
	todo := make(chan int)
	go func() {
		for n := range mutants {
			if n+1 >= *from && (*only == 0 || *only == n+1) {
				todo <- n
			}
		}
		close(todo)
	}()
	var score struct {
		sync.Mutex
		killed, survived, same int
	}
	var wait sync.WaitGroup
	for range *jobs {
		wait.Go(func() {
			dir, err := os.MkdirTemp("", "mutation")
			if err == nil {
				defer os.RemoveAll(dir)
				err = os.CopyFS(dir, os.DirFS(*root))
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			for n := range todo {
				m := mutants[n]
				verdict, detail := try(dir, m)
				score.Lock()
				switch {
				case verdict == "killed":
					score.killed++
					detail = killer(detail, *only != 0)
				case m.same != "":
					score.same++
					detail = "equivalent: " + m.same
				default:
					score.survived++
				}
				fmt.Printf("%3d %-9s %-12s %s\n              %s\n", n+1, verdict, m.file, oneLine(m), detail)
				score.Unlock()
			}
		})
	}
	wait.Wait()
	fmt.Printf("%d killed, %d survived, %d equivalent\n", score.killed, score.survived, score.same)
	if score.survived > 0 {
		os.Exit(1)
	}
}

// try applies a mutant, runs the tests, and takes it back.
func try(dir string, m mutant) (verdict, output string) {
	path := filepath.Join(dir, m.file)
	source, err := os.ReadFile(path)
	if err != nil {
		return "broken", err.Error()
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return "broken", fmt.Sprintf("its text occurs %d times", n)
	}
	mutated := strings.Replace(string(source), m.old, m.new, 1)
	if err := os.WriteFile(path, []byte(mutated), 0o644); err != nil {
		return "broken", err.Error()
	}
	defer os.WriteFile(path, source, 0o644)
	steps := [][]string{
		{"test", "-vet=off", "-short", "-failfast", "-timeout", "40s", "-run", *fast, "."},
		{"test", "-vet=off", "-short", "-failfast", "-timeout", "120s", ".", "./wheeltest"},
	}
	if *deep {
		steps = append(steps, []string{"test", "-vet=off", "-failfast", "-timeout", "300s", ".", "./wheeltest"})
	}
	for _, args := range steps {
		switch out, err := run(dir, args...); {
		case err == nil:
		case strings.Contains(out, "[build failed]"):
			return "broken", out
		default:
			return "killed", out
		}
	}
	return "survived", ""
}

// run runs the go command with little memory, since a mutant may never stop.
func run(dir string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOMEMLIMIT=2GiB")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// killer finds in the output of a failed run which test failed.
func killer(output string, all bool) string {
	if all {
		return output
	}
	for _, line := range strings.Split(output, "\n") {
		for _, sign := range []string{"--- FAIL: ", "panic: ", "fatal error: "} {
			if _, what, ok := strings.Cut(line, sign); ok {
				return "by " + what
			}
		}
	}
	return ""
}

func oneLine(m mutant) string {
	short := func(s string) string {
		s = strings.Join(strings.Fields(s), " ")
		if len(s) > 90 {
			s = s[:90] + "..."
		}
		return s
	}
	return short(m.old) + "  ->  " + short(m.new)
}
