package wheelprom

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fee15284/timingwheel"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// A dashboard is what the tests read of dashboard.json.
type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		Type    string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr, LegendFormat string }

		FieldConfig struct {
			Defaults struct {
				Unit       string
				Custom     struct{ Stacking struct{ Mode string } }
				Thresholds struct {
					Steps []struct {
						Color string
						Value *float64
					}
				}
			}
		}
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}

// A scrape is all series at one moment: by metric, then by the one label beside
// wheel that it has, if any.
type scrape map[string]map[string]float64

const scrapeEvery = 10 * time.Second

// scrapes runs a shop for a while, in no time, and scrapes it. From the 12th to
// the 15th minute its database hangs.
func scrapes(t *testing.T, length time.Duration) (all []scrape) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(1, 2))
		w, err := timingwheel.New(timingwheel.Options{Tick: 10 * time.Millisecond, Concurrency: 16})
		require.NoError(t, err)
		start := time.Now()
		expire := func() {
			slow := time.Duration(rand.ExpFloat64() * float64(40*time.Millisecond))
			if at := time.Since(start); at > 12*time.Minute && at < 15*time.Minute {
				slow = 8 * time.Second
			}
			time.Sleep(slow)
		}
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(NewCollector(map[string]*timingwheel.Wheel{"orders": w}))
		var open []timingwheel.Task
		for time.Since(start) < length {
			for range 20 + rnd.IntN(20) {
				task, err := w.Add([]time.Duration{2 * time.Minute, 15 * time.Minute, 2 * time.Hour}[rnd.IntN(3)], expire)
				require.NoError(t, err)
				open = append(open, task)
			}
			for range 26 { // most are paid
				n := rnd.IntN(len(open))
				w.Cancel(open[n])
				open[n] = open[len(open)-1]
				open = open[:len(open)-1]
			}
			time.Sleep(time.Second)
			if time.Since(start)%scrapeEvery == 0 {
				all = append(all, scraped(t, registry))
			}
		}
		w.Stop()
		time.Sleep(time.Minute)
	})
	return all
}

func scraped(t *testing.T, from prometheus.Gatherer) scrape {
	families, err := from.Gather()
	require.NoError(t, err)
	s := scrape{}
	put := func(name, label string, value float64) {
		if s[name] == nil {
			s[name] = map[string]float64{}
		}
		s[name][label] = value
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			label := ""
			for _, l := range m.GetLabel() {
				if l.GetName() != "wheel" {
					label = l.GetValue()
				}
			}
			switch {
			case m.GetCounter() != nil:
				put(f.GetName(), label, m.GetCounter().GetValue())
			case m.GetGauge() != nil:
				put(f.GetName(), label, m.GetGauge().GetValue())
			default:
				for _, b := range m.GetHistogram().GetBucket() {
					put(f.GetName()+"_bucket", strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64), float64(b.GetCumulativeCount()))
				}
				put(f.GetName()+"_bucket", "+Inf", float64(m.GetHistogram().GetSampleCount()))
			}
		}
	}
	return s
}

// form is the one shape of the queries of the dashboard.
var form = regexp.MustCompile(`^(?:histogram_quantile\(([0-9.]+), )?(sum|max)(?: by \((\w+)\))? ?\((?:(rate|increase)\()?` +
	`(timingwheel_\w+)\{wheel=~"\$wheel"\}(?:\[(\$__rate_interval|5m)\]\))?\)+$`)

// evaluate does what Prometheus would for a query of that form, of one wheel, at
// the latest scrape. It returns values by label.
func evaluate(t *testing.T, expr string, scrapes []scrape) map[string]float64 {
	t.Helper()
	parts := form.FindStringSubmatch(expr)
	require.NotNil(t, parts, "not a query that this test knows: %s", expr)
	quantile, aggregate, by, function, metric := parts[1], parts[2], parts[3], parts[4], parts[5]
	now := scrapes[len(scrapes)-1]
	require.Contains(t, now, metric, "there is no such metric")
	window := map[string]int{"5m": 30}[parts[6]]
	if window == 0 {
		window = 6
	}
	before := scrapes[max(0, len(scrapes)-1-window)]
	span := float64(min(window, len(scrapes)-1)) * scrapeEvery.Seconds()
	out := map[string]float64{}
	for label, value := range now[metric] {
		if function != "" {
			value -= before[metric][label]
		}
		if function == "rate" {
			value /= max(span, 1)
		}
		if by == "" || by == "wheel" {
			label = map[string]string{"wheel": "orders"}[by]
		}
		if aggregate == "sum" {
			out[label] += value
		} else {
			out[label] = max(out[label], value)
		}
	}
	if quantile == "" {
		return out
	}
	q, err := strconv.ParseFloat(quantile, 64)
	require.NoError(t, err)
	return map[string]float64{"": quantileOf(q, out)}
}

// bounds returns the upper bounds of cumulative buckets, rising.
func bounds(buckets map[string]float64) (all []float64) {
	for le := range buckets {
		bound, err := strconv.ParseFloat(le, 64)
		if err != nil {
			bound = math.NaN()
		}
		all = append(all, bound)
	}
	slices.Sort(all)
	return all
}

func le(bound float64) string { return strconv.FormatFloat(bound, 'g', -1, 64) }

// quantileOf interpolates as histogram_quantile does.
func quantileOf(q float64, buckets map[string]float64) float64 {
	rank, low, below := q*buckets["+Inf"], 0.0, 0.0
	if rank == 0 {
		return math.NaN()
	}
	for _, bound := range bounds(buckets) {
		if count := buckets[le(bound)]; count >= rank {
			if math.IsInf(bound, 1) {
				return low
			}
			return low + (bound-low)*(rank-below)/(count-below)
		}
		low, below = bound, buckets[le(bound)]
	}
	return low
}

// Each query of the dashboard is about metrics that there are, and shows that the
// shop's database hangs.
func TestDashboardAsksForMetricsThatExist(t *testing.T) {
	d := readDashboard(t)
	all := scrapes(t, 14*time.Minute)
	seen := map[int]bool{}
	for _, p := range d.Panels {
		require.False(t, seen[p.ID], "two panels have the id %d", p.ID)
		seen[p.ID] = true
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			values := evaluate(t, target.Expr, all)
			require.NotEmpty(t, values, target.Expr)
			switch p.Title + "/" + target.LegendFormat {
			case "Backlog/due", "Overdue/overdue", "Running against the limit/running", "Tasks/added":
				require.Positive(t, values[""], target.Expr)
			case "Lateness/99 % within":
				require.Greater(t, values[""], 1.0, target.Expr)
			}
		}
	}
}
