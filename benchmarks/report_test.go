package main

import (
	"os"
	"strings"
	"testing"
)

func TestTableIsMarkdown(t *testing.T) {
	got := table([][]string{{"what", "ns"}, {"add", "50"}})
	want := "| what | ns |\n| --- | --- |\n| add | 50 |\n"
	if got != want {
		t.Errorf("table:\n%s\nwant:\n%s", got, want)
	}
}

func TestSpreadShowsMedianAndRange(t *testing.T) {
	for _, c := range []struct {
		format string
		s      sample
		want   string
	}{
		{"%.0f", sample{3, 1, 2}, "2 (1 to 3)"},
		{"%.1f ns", sample{1}, "1.0 (1.0 to 1.0) ns"},
		{"%.0f", nil, "–"},
	} {
		if got := spread1(c.format, c.s); got != c.want {
			t.Errorf("spread of %v = %q, want %q", c.s, got, c.want)
		}
	}
}

func TestFillInReplacesOnlyWhatIsBetweenMarkers(t *testing.T) {
	text := "before\n<!-- begin a -->\nold\n<!-- end a -->\nafter\n"
	got, err := fillIn(text, map[string]string{"a": "new $1"})
	if err != nil {
		t.Fatal(err)
	}
	want := "before\n<!-- begin a -->\n\nnew $1\n\n<!-- end a -->\nafter\n"
	if got != want {
		t.Errorf("text:\n%s\nwant:\n%s", got, want)
	}
	if again, err := fillIn(got, map[string]string{"a": "new $1"}); err != nil || again != got {
		t.Errorf("filling in again changed the text: %v\n%s", err, again)
	}
}

func TestFillInNamesMarkersThatDoNotMatch(t *testing.T) {
	for _, text := range []string{"", "<!-- begin a -->\n<!-- end a -->\n<!-- begin b -->\n<!-- end b -->\n"} {
		if _, err := fillIn(text, map[string]string{"a": ""}); err == nil {
			t.Errorf("no error for %q", text)
		}
	}
}

func TestReportHasAPlaceForEverySection(t *testing.T) {
	text, err := os.ReadFile("../BENCHMARKS.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fillIn(string(text), sections(someResults(), "")); err != nil {
		t.Error(err)
	}
}

func TestTargetIsMetUpToItsLimit(t *testing.T) {
	for _, c := range []struct {
		wheel float64
		met   bool
	}{{4, true}, {4.1, false}} {
		got := atMost("x", 0.40, sample{c.wheel}, sample{10})
		if got.met != c.met || got.limit != "<= 0.40" {
			t.Errorf("%v of 10: %+v", c.wheel, got)
		}
	}
	if atMost("x", 1, nil, nil).met {
		t.Error("a target is met that was not measured")
	}
}

func TestEveryTargetIsMissedWithoutFigures(t *testing.T) {
	for _, target := range targets(&results{procs: 1}) {
		if target.met && target.limit != "reported" {
			t.Errorf("%q is met by nothing: %s", target.what, target.measured)
		}
	}
	if got := targetTable(&results{}); !strings.Contains(got, "**no**") {
		t.Error("the table does not show misses")
	}
}

func TestModelIsBoundByTheLockOrTheProcessors(t *testing.T) {
	m := model{outside: 60, hold: 40, handed: 50, after: 200}
	for _, c := range []struct {
		got, want float64
	}{
		{m.wheels(1, 1, 0), 10},     // 100 ns each
		{m.wheels(1, 64, 0), 20},    // a handing-over every 50 ns
		{m.wheels(4, 64, 0), 80},    // of four locks
		{m.wheels(16, 64, 900), 64}, // 1000 ns each on 64 processors
		{m.afterFunc(64, 800), 64},  // the same
		{m.wheels(1, 16, 1900), 8},  // 2000 ns each on 16
		{m.afterFunc(16, 1800), 8},  // the same
		{m.wheels(1, 64, 100_000), 1e3 * 64 / 100_100.0},
	} {
		if c.got != c.want {
			t.Errorf("model says %v, want %v", c.got, c.want)
		}
	}
}

func TestRunsThatAreNotToBeReliedOnSaySo(t *testing.T) {
	r := new(results)
	for _, s := range [][2]string{{"scale", "100"}, {"counts", "2"}, {"load", "5.5"}} {
		r.set(s[0], s[1])
	}
	for _, want := range []string{"10000 tasks wherever it says 1M", "2 counts instead of 10", "5.5 other programs"} {
		if got := warnings(r); !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	r = new(results)
	r.set("counts", "10")
	r.set("load", "0.10")
	if got := warnings(r); got != "" {
		t.Errorf("a good run says %q", got)
	}
}
