// Benchmarks measures the wheel beside what a program would use without it, and
// writes the figures, the tables of BENCHMARKS.md and the charts. Run it with
// run.sh, which is in this directory.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	var opts options
	flag.BoolVar(&opts.quick, "quick", false, "see whether everything works, with a hundredth of the tasks, and write only below the directory for temporary files")
	flag.IntVar(&opts.counts, "counts", 0, "counts of each experiment; the default is 10, or 2 with -quick")
	flag.BoolVar(&opts.render, "render", false, "measure nothing; make the tables and charts again from results.txt")
	flag.StringVar(&opts.root, "root", "..", "`directory` of BENCHMARKS.md and docs; results go to benchmarks in it")
	flag.Parse()
	if err := opts.run(); err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

type options struct {
	quick, render bool
	counts        int
	root          string
}

func (o options) run() error {
	report := filepath.Join(o.root, "BENCHMARKS.md")
	root := o.root
	if o.quick {
		var err error
		if root, err = os.MkdirTemp("", "benchmarks"); err != nil {
			return err
		}
		fmt.Println("writing to", root)
	}
	for _, dir := range []string{"benchmarks", "docs"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	raw := filepath.Join(root, "benchmarks", "results.txt")
	if !o.render {
		b := newBench(o.quick, o.counts, os.Stdout)
		describe(b)
		b.run()
		if err := save(raw, b.results.write); err != nil {
			return err
		}
	}
	return render(raw, report, root)
}

// run measures everything.
func (b *bench) run() {
	runCosts(b)
	runKeyed(b)
	runFire(b)
	runMix(b)
	runContention(b)
	runLatency(b)
	runIdle(b)
}

// render makes the summary, the charts and, from the prose in one file, the report
// in the root directory.
func render(raw, prose, root string) error {
	f, err := os.Open(raw)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := readResults(f)
	if err != nil {
		return err
	}
	if err := save(filepath.Join(filepath.Dir(raw), "summary.csv"), r.writeSummary); err != nil {
		return err
	}
	if err := drawCharts(r, filepath.Join(root, "docs")); err != nil {
		return err
	}
	text, err := os.ReadFile(prose)
	if err != nil {
		return err
	}
	stats, err := benchstat(raw)
	if err != nil {
		return err
	}
	filled, err := fillIn(string(text), sections(r, stats))
	if err != nil {
		return err
	}
	fmt.Println(targetTable(r))
	return os.WriteFile(filepath.Join(root, "BENCHMARKS.md"), []byte(filled), 0o644)
}
