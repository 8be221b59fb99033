package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// table renders rows, of which the first is the head, as Markdown.
func table(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString("|" + strings.Repeat(" --- |", len(row)) + "\n")
		}
	}
	return b.String()
}

// spread1 renders a sample as its median and, in parentheses, its smallest and
// largest value, all in one format.
func spread1(format string, s sample) string {
	if len(s) == 0 {
		return "–"
	}
	number, unit, _ := strings.Cut(format, " ")
	return strings.TrimSpace(fmt.Sprintf(number+" ("+number+" to "+number+") "+unit, s.median(), s.min(), s.max()))
}

var marker = regexp.MustCompile(`(?s)(<!-- begin (\w+) -->\n).*?(<!-- end \w+ -->)`)

// fillIn puts sections between the markers of a text that bear their names.
func fillIn(text string, sections map[string]string) (string, error) {
	var unknown []string
	seen := map[string]bool{}
	text = marker.ReplaceAllStringFunc(text, func(block string) string {
		m := marker.FindStringSubmatch(block)
		seen[m[2]] = true
		body, ok := sections[m[2]]
		if !ok {
			unknown = append(unknown, m[2])
		}
		return m[1] + "\n" + strings.TrimSpace(body) + "\n\n" + m[3]
	})
	for name := range sections {
		if !seen[name] {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return "", fmt.Errorf("sections without a marker, or markers without a section: %v", unknown)
	}
	return text, nil
}

// save writes a file by a function.
func save(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// sections are the generated parts of the report, by name.
func sections(r *results, benchstat string) map[string]string {
	return map[string]string{
		"environment": environmentTable(r),
		"targets":     targetTable(r),
		"operations":  operationTables(r),
		"memory":      memoryTable(r),
		"firing":      firingTable(r),
		"mix":         mixTable(r),
		"latency":     latencyTable(r),
		"lateness":    latenessTable(r),
		"idle":        idleTable(r),
		"keyed":       keyedTable(r),
		"contention":  contentionTable(r),
		"profile":     profileTable(r),
		"model":       modelTable(r),
		"benchstat":   "```text\n" + benchstat + "\n```",
	}
}

func environmentTable(r *results) string {
	rows := [][]string{{"", ""}}
	for _, s := range [][2]string{{"commit", "commit"}, {"date", "date"}, {"Go", "go"}, {"CPU", "cpu"},
		{"processors", "cores"}, {"load before the run", "load"}, {"counts", "counts"}} {
		rows = append(rows, []string{s[0], r.get(s[1])})
	}
	rows = append(rows, []string{"system", r.get("goos") + "/" + r.get("goarch")}, []string{"command", "`" + r.get("command") + "`"})
	return table(rows) + warnings(r)
}

// warnings says why the figures of a run are not to be relied on, if so.
func warnings(r *results) string {
	text := ""
	if r.size(million) != million {
		text += fmt.Sprintf("\n**Quick run: there were %d tasks wherever it says 1M below, and so on in proportion. "+
			"It shows that everything works, and nothing else.**\n", r.size(million))
	}
	if counts, err := strconv.Atoi(r.get("counts")); err == nil && counts < 10 {
		text += fmt.Sprintf("\n**Provisional: %d counts instead of 10.**\n", counts)
	}
	if load, err := strconv.ParseFloat(r.get("load"), 64); err == nil && load > 0.5 {
		text += fmt.Sprintf("\n**Provisional: %g other programs wanted the processors when the run began.**\n", load)
	}
	return text
}

// An impl is a contender as results and readers name it.
type impl struct{ name, title string }

var impls = []impl{
	{"wheel", "wheel"}, {"afterfunc", "time.AfterFunc"}, {"heap", "mutex + container/heap"}, {"gozero", "go-zero TimingWheel"},
}

var pendingSizes = []struct {
	n     int
	title string
}{{10_000, "10K"}, {100_000, "100K"}, {million, "1M"}, {10 * million, "10M"}}

// byPending is a table of one figure: contenders down, pending tasks across.
func byPending(r *results, what, unit, format string) string {
	head := []string{unit}
	for _, p := range pendingSizes {
		head = append(head, p.title+" pending")
	}
	rows := [][]string{head}
	for _, c := range impls {
		row := []string{c.title}
		for _, p := range pendingSizes {
			row = append(row, spread1(format, r.sample(fmt.Sprintf("%s/impl=%s/pending=%d", what, c.name, r.size(p.n)), unit)))
		}
		rows = append(rows, row)
	}
	return table(rows)
}

func operationTables(r *results) string {
	var b strings.Builder
	for _, op := range []struct{ name, title string }{
		{"AddCancel", "Add and cancel it, one goroutine"},
		{"AddCancelParallel", "Add and cancel it, GOMAXPROCS goroutines (wall time of one)"},
		{"Reset", "Reset a pending task"},
		{"CancelRandomAdd", "Cancel a random one, add another"},
		{"Add", "Add while filling, from none to so many"},
	} {
		fmt.Fprintf(&b, "%s:\n\n%s\n", op.title, byPending(r, op.name, "ns/op", "%.0f"))
	}
	rows := [][]string{{"ns/op", ""}}
	for _, f := range []string{"locks+closure+clock", "closure+clock", "clock"} {
		rows = append(rows, []string{"floor: " + strings.ReplaceAll(f, "+", ", "), spread1("%.1f", r.sample("Floor/impl="+f, "ns/op"))})
	}
	rows = append(rows, []string{"wheel, AddAt+Cancel, 1M pending", spread1("%.1f", r.cost("AddAtCancel", "wheel", million))})
	fmt.Fprintf(&b, "What the wheel cannot go below, and AddAt:\n\n%s", table(rows))
	return b.String()
}

func memoryTable(r *results) string {
	return "Held per pending task, beside closure and handle:\n\n" + byPending(r, "Memory", "B/task", "%.1f") +
		"\nStill held after all were cancelled, per task that was pending:\n\n" + byPending(r, "AfterBurst", "B/task", "%.2f") +
		"\nOne garbage collection, in ns:\n\n" + byPending(r, "GC", "ns/op", "%.3g") +
		"\n" + table([][]string{{"ns/op", ""}, {"floor: 1M closures and handles, and no timers", spread1("%.3g", r.sample("Floor/impl=GC", "ns/op"))}})
}

func firingTable(r *results) string {
	rows := [][]string{{"ns per callback", ""}}
	for _, c := range impls {
		rows = append(rows, []string{"1M at one instant, " + c.title,
			spread1("%.0f", r.sample(fmt.Sprintf("FireAtOnce/impl=%s/due=%d", c.name, r.size(million)), "ns/task"))})
	}
	for _, n := range pendingSizes[2:] {
		rows = append(rows, []string{n.title + " over an hour, one jump, wheel",
			spread1("%.0f", r.sample(fmt.Sprintf("JumpAnHour/impl=wheel/due=%d", r.size(n.n)), "ns/task"))})
	}
	return table(rows)
}

func mixTable(r *results) string {
	rows := [][]string{{"", "orders/s", "CPU in the collector, %", "orders/s, handed about"}}
	row := func(title, name string) {
		rows = append(rows, []string{title, spread1("%.0f", r.sample(mixName(name, false), "orders/s")),
			spread1("%.1f", r.sample(mixName(name, false), "gc-cpu-%")),
			spread1("%.0f", r.sample(mixName(name, true), "orders/s"))})
	}
	for _, c := range impls {
		row(c.title, c.name)
	}
	row("a wheel for each goroutine", "own")
	return table(rows)
}

func latencyTable(r *results) string {
	rows := [][]string{{"µs", "p50", "p99", "p99.9", "p99.99", "longest"}}
	for _, c := range impls[:3] {
		for _, phase := range []string{"quiet", "cascade", "due"} {
			name := "AddLatency/impl=" + c.name + "/phase=" + phase
			if len(r.sample(name, "p50-ns")) == 0 {
				continue
			}
			row := []string{c.title + ", " + phase}
			for _, unit := range []string{"p50-ns", "p99-ns", "p99.9-ns", "p99.99-ns", "max-ns"} {
				row = append(row, spread1("%.3g", r.sample(name, unit).times(1e-3)))
			}
			rows = append(rows, row)
		}
	}
	return table(rows)
}

func latenessTable(r *results) string {
	rows := [][]string{{"ms", "earliest", "p50", "p99", "p99.9", "latest", "early, %"}}
	for _, c := range impls {
		row := []string{c.title}
		for _, unit := range []string{"min-ns", "p50-ns", "p99-ns", "p99.9-ns", "max-ns"} {
			row = append(row, spread1("%.3g", r.sample("Lateness/impl="+c.name, unit).times(1e-6)))
		}
		rows = append(rows, append(row, spread1("%.1f", r.sample("Lateness/impl="+c.name, "early-%"))))
	}
	return table(rows)
}

func idleTable(r *results) string {
	rows := [][]string{{"", "CPU µs per second", "wake-ups"}}
	for _, state := range []string{"no-timers", "wheel-empty", "wheel-one-task-in-an-hour", "gozero-empty"} {
		name := "Idle/state=" + state
		rows = append(rows, []string{strings.ReplaceAll(state, "-", " "), spread1("%.0f", r.sample(name, "cpu-µs/s")), spread1("%.0f", r.sample(name, "wakeups"))})
	}
	return table(rows)
}

func keyedTable(r *results) string {
	rows := [][]string{{"", "Add+Cancel, ns", "B per key"}}
	for _, c := range []impl{{"wheel", "Keyed"}, {"afterfunc", "time.AfterFunc, map and mutex"}} {
		name := fmt.Sprintf("Keyed/impl=%s/pending=%d", c.name, r.size(million))
		rows = append(rows, []string{c.title, spread1("%.0f", r.sample(name, "ns/op")), spread1("%.0f", r.sample(name, "B/task"))})
	}
	return table(rows)
}

// times returns the sample in another unit.
func (s sample) times(factor float64) sample {
	scaled := make(sample, len(s))
	for i, v := range s {
		scaled[i] = v * factor
	}
	return scaled
}

func profileTable(r *results) string {
	rows := [][]string{{"lock held by", "% of all waiting"}}
	for _, m := range []string{"Add", "Cancel", "Reset", "next", "catchUp", "other"} {
		share := r.sample("MutexProfile/method="+m, "%-of-waiting").median()
		if math.IsNaN(share) {
			share = 0
		}
		rows = append(rows, []string{m, fmt.Sprintf("%.1f", share)})
	}
	return table(rows)
}
