package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// describe notes what the figures of a run depend on.
func describe(b *bench) {
	r := b.results
	r.set("goos", runtime.GOOS)
	r.set("goarch", runtime.GOARCH)
	r.set("pkg", "github.com/fee15284/timingwheel/benchmarks")
	r.set("cpu", cpuModel())
	r.set("cores", strconv.Itoa(runtime.NumCPU()))
	r.set("go", runtime.Version())
	r.set("commit", commit())
	r.set("date", time.Now().UTC().Format("2006-01-02 15:04 UTC"))
	r.set("load", loadAverage())
	r.set("counts", strconv.Itoa(b.rounds))
	r.set("scale", strconv.Itoa(1_000_000/b.scaled(1_000_000)))
	command := "benchmarks/run.sh"
	if b.quick {
		command += " -quick"
	}
	if b.rounds != newBench(b.quick, 0, nil).rounds {
		command += fmt.Sprintf(" -counts %d", b.rounds)
	}
	r.set("command", command)
}

// cpuModel returns the name of the processor where Linux tells it.
func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// loadAverage returns how many processes wanted to run in the minute before.
func loadAverage() string {
	load, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(load), " ")
	return first
}

// commit returns the checked-out commit, and whether other changes are there.
func commit() string {
	hash, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(hash))
	// What a run writes itself does not count as a change.
	changes, err := exec.Command("git", "status", "--porcelain", "--", ":/*.go", ":/*go.mod").Output()
	if err != nil || len(changes) > 0 {
		name += " with changes"
	}
	return name
}

// benchstat returns what benchstat makes of the figures that are compared most.
func benchstat(raw string) (string, error) {
	out, err := exec.Command("go", "tool", "benchstat", "-row", ".name /pending /due", "-col", "/impl",
		"-table", "goos", "-filter", `.unit:(ns/op OR B/task OR ns/task) `+
			`.name:(AddCancel OR AddCancelParallel OR Reset OR CancelRandomAdd OR GC OR Memory OR FireAtOnce OR OrderMix OR Keyed) `+
			`/impl:(wheel OR afterfunc OR heap OR gozero)`, raw).Output()
	if err != nil {
		return "", fmt.Errorf("benchstat: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
