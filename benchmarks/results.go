package main

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// A results is all that a run has measured. Its file is in the format of Go
// benchmarks, which benchstat reads, and is the only source of tables and charts.
type results struct {
	procs   int // GOMAXPROCS
	config  []setting
	records []record
}

// A setting is something that holds for a run: the machine, the commit.
type setting struct{ key, value string }

// A record is one count of one benchmark.
type record struct {
	name    string // without "Benchmark" and the number of processors
	n       int    // operations
	metrics []metric
}

type metric struct {
	unit  string
	value float64
}

func (r *results) set(key, value string) { r.config = append(r.config, setting{key, value}) }

// get returns a setting, or "unknown".
func (r *results) get(key string) string {
	for _, s := range r.config {
		if s.key == key {
			return s.value
		}
	}
	return "unknown"
}

// sample returns one figure in each of the counts of a benchmark.
func (r *results) sample(name, unit string) sample {
	var s sample
	for _, rec := range r.records {
		if rec.name != name {
			continue
		}
		for _, m := range rec.metrics {
			if m.unit == unit {
				s = append(s, m.value)
			}
		}
	}
	return s
}

// write writes the results as the output of Go benchmarks.
func (r *results) write(w io.Writer) error {
	b := bufio.NewWriter(w)
	for _, s := range r.config {
		fmt.Fprintf(b, "%s: %s\n", s.key, s.value)
	}
	for _, rec := range r.records {
		fmt.Fprintf(b, "Benchmark%s-%d\t%d", rec.name, r.procs, rec.n)
		for _, m := range rec.metrics {
			fmt.Fprintf(b, "\t%s %s", strconv.FormatFloat(m.value, 'f', -1, 64), m.unit)
		}
		fmt.Fprintln(b)
	}
	return b.Flush()
}

var resultLine = regexp.MustCompile(`^Benchmark(\S+)-(\d+)\t(\d+)(\t.*)?$`)

// readResults reads what write has written.
func readResults(f io.Reader) (*results, error) {
	r := new(results)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if err := r.readLine(lines.Text()); err != nil {
			return nil, err
		}
	}
	return r, lines.Err()
}

func (r *results) readLine(line string) error {
	m := resultLine.FindStringSubmatch(line)
	if m == nil {
		if key, value, ok := strings.Cut(line, ": "); ok {
			r.set(key, value)
		}
		return nil
	}
	r.procs, _ = strconv.Atoi(m[2])
	rec := record{name: m[1]}
	rec.n, _ = strconv.Atoi(m[3])
	fields := strings.Fields(m[4])
	for i := 0; i+1 < len(fields); i += 2 {
		value, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return fmt.Errorf("result line %q: %w", line, err)
		}
		rec.metrics = append(rec.metrics, metric{fields[i+1], value})
	}
	r.records = append(r.records, rec)
	return nil
}

// figures returns each pair of a benchmark's name and a unit once, in the order of
// their first records.
func (r *results) figures() [][2]string {
	var list [][2]string
	seen := map[[2]string]bool{}
	for _, rec := range r.records {
		for _, m := range rec.metrics {
			if f := [2]string{rec.name, m.unit}; !seen[f] {
				seen[f] = true
				list = append(list, f)
			}
		}
	}
	return list
}

// writeSummary writes a line per figure: its median, smallest and largest value.
func (r *results) writeSummary(w io.Writer) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"benchmark", "unit", "counts", "median", "min", "max"}}
	format := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	for _, f := range r.figures() {
		s := r.sample(f[0], f[1])
		rows = append(rows, []string{f[0], f[1], strconv.Itoa(len(s)), format(s.median()), format(s.min()), format(s.max())})
	}
	return out.WriteAll(rows)
}
