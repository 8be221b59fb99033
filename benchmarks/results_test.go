package main

import (
	"reflect"
	"strings"
	"testing"
)

func someResults() *results {
	r := &results{procs: 2}
	r.set("goos", "linux")
	r.set("scale", "100")
	r.records = []record{
		{"AddCancel/impl=wheel/pending=10000", 1000, []metric{{"ns/op", 50.25}, {"allocs/op", 1}}},
		{"AddCancel/impl=wheel/pending=10000", 1100, []metric{{"ns/op", 52}, {"allocs/op", 1}}},
		{"Lateness/impl=gozero", 3, []metric{{"min-ns", -1.5e7}}},
		{"Empty", 1, nil},
	}
	return r
}

func TestResultsReadBackAsWritten(t *testing.T) {
	var file strings.Builder
	want := someResults()
	if err := want.write(&file); err != nil {
		t.Fatal(err)
	}
	if line := "BenchmarkAddCancel/impl=wheel/pending=10000-2\t1000\t50.25 ns/op\t1 allocs/op\n"; !strings.Contains(file.String(), line) {
		t.Errorf("no line %q in\n%s", line, &file)
	}
	got, err := readResults(strings.NewReader(file.String()))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read\n%+v\nwant\n%+v", got, want)
	}
}

func TestReadResultsRefusesWhatIsNoNumber(t *testing.T) {
	_, err := readResults(strings.NewReader("BenchmarkX-2\t1\tmany ns/op\n"))
	if err == nil || !strings.Contains(err.Error(), "many") {
		t.Errorf("error = %v", err)
	}
}

func TestSamplesAreFoundByNameUnitAndScale(t *testing.T) {
	r := someResults()
	if got := r.cost("AddCancel", "wheel", million); !reflect.DeepEqual(got, sample{50.25, 52}) {
		t.Errorf("costs = %v", got)
	}
	if got := r.sample("AddCancel/impl=wheel/pending=10000", "B/op"); got != nil {
		t.Errorf("figures that were not recorded = %v", got)
	}
	if got := r.get("cpu"); got != "unknown" {
		t.Errorf("a setting that is not there = %q", got)
	}
}

func TestSummaryHasALinePerFigure(t *testing.T) {
	var file strings.Builder
	if err := someResults().writeSummary(&file); err != nil {
		t.Fatal(err)
	}
	want := "benchmark,unit,counts,median,min,max\n" +
		"AddCancel/impl=wheel/pending=10000,ns/op,2,51.125,50.25,52\n" +
		"AddCancel/impl=wheel/pending=10000,allocs/op,2,1,1,1\n" +
		"Lateness/impl=gozero,min-ns,1,-1.5e+07,-1.5e+07,-1.5e+07\n"
	if file.String() != want {
		t.Errorf("summary:\n%s\nwant:\n%s", &file, want)
	}
}
