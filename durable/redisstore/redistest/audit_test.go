package redistest

import (
	"strings"
	"testing"

	"github.com/fee15284/timingwheel/durable"
)

// An auditor that sees nothing wrong must be shown to see what is wrong.
func TestAuditSeesBrokenPromises(t *testing.T) {
	put := Entry{Kind: durable.Put, Status: durable.Created, At: 100, Until: 200}
	first := Entry{Token: "a", At: 210, Until: 300, Due: 200, Attempt: 1}
	second := Entry{Token: "b", At: 300, Until: 400, Due: 200, Attempt: 2}
	ack := Entry{Kind: durable.Ack, Status: durable.Done, Token: "b"}
	tried := ack
	tried.Status = 0
	asked := Entry{Kind: durable.Cancel}
	cancel := Entry{Kind: durable.Cancel, Status: durable.Canceled}
	extend := Entry{Kind: durable.Extend, Status: durable.Done, Token: "a", Until: 350}
	early := first
	early.At = 199
	for _, test := range []struct {
		name    string
		entries []Entry
		want    string
	}{
		{"all is well", []Entry{put, first, second, tried, ack}, ""},
		{"all is well in another order", []Entry{tried, ack, second, put, first}, ""},
		{"cancelled", []Entry{put, asked, cancel}, ""},
		{"the answer to a cancel is missing", []Entry{put, asked}, ""},
		{"the answer of the last call is missing", []Entry{first, second, tried, ack}, ""},
		{"lost", []Entry{put, first}, "1 lost"},
		{"overlapping", []Entry{put, first, extend, second, tried, ack}, "1 overlapping leases"},
		{"early", []Entry{put, early, tried, ack}, "1 early"},
		{"undead", []Entry{put, asked, cancel, first}, "1 claimed after a cancel"},
		{"twice", []Entry{put, first, tried, ack, ack}, "1 handled twice"},
	} {
		a := NewAudit(test.entries)
		err := a.Err()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	a := NewAudit([]Entry{put, first, second, tried, ack})
	if a.Created != 1 || a.Handled != 1 || a.Again != 1 || a.Percentile(0.99) != 10 {
		t.Errorf("audit %+v", a)
	}
}
