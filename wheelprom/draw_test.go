package wheelprom

import (
	"flag"
	"fmt"
	"html"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var picture = flag.String("picture", "", "draw the dashboard of a simulated shop to this SVG file")

// TestPicture draws dashboard.json: its panels, in their places, with what its
// queries give for half an hour of the simulated shop. Grafana draws them with
// other fonts and colours.
func TestPicture(t *testing.T) {
	if *picture == "" {
		t.Skip("no -picture")
	}
	d := readDashboard(t)
	all := scrapes(t, 30*time.Minute)
	p := &pen{}
	height := 0
	for _, panel := range d.Panels {
		g := panel.GridPos
		height = max(height, g.Y+g.H)
		p.x, p.y, p.w, p.h = float64(g.X)*gridX, float64(g.Y)*gridY+top, float64(g.W)*gridX-8, float64(g.H)*gridY-8
		p.box(panel.Title)
		var lines []line
		for _, target := range panel.Targets {
			lines = append(lines, history(t, target.Expr, target.LegendFormat, all)...)
		}
		unit := panel.FieldConfig.Defaults.Unit
		switch panel.Type {
		case "stat":
			colour := "#73bf69"
			value := lines[0].values[len(all)-1]
			for _, step := range panel.FieldConfig.Defaults.Thresholds.Steps {
				if step.Value != nil && value >= *step.Value {
					colour = map[string]string{"red": "#f2495c", "orange": "#ff9830"}[step.Color]
				}
			}
			p.stat(lines[0], unit, colour)
		case "heatmap":
			p.heatmap(lines)
		default:
			p.chart(lines, unit, panel.FieldConfig.Defaults.Custom.Stacking.Mode == "normal")
		}
	}
	out := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="Inter, Helvetica, Arial, DejaVu Sans, sans-serif" font-size="11">
<title>The dashboard for a simulated shop whose database hangs for three minutes</title>
<rect width="100%%" height="100%%" fill="#111217"/><text x="8" y="24" fill="#d8d9da" font-size="16">Timing wheels</text>
%s</svg>
`, 24*gridX+8, float64(height)*gridY+top, p.out.String())
	require.NoError(t, os.WriteFile(*picture, []byte(out), 0o644))
}

const (
	gridX, gridY, top = 50.0, 26.0, 36.0
	dim, bright       = "#8e8e99", "#d8d9da"
)

var colours = []string{"#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#b877d9"}

// A line is one series over time.
type line struct {
	name   string
	values []float64
}

// history evaluates a query at each scrape.
func history(t *testing.T, expr, legend string, all []scrape) (lines []line) {
	index := map[string]int{}
	for n := range all {
		values := evaluate(t, expr, all[:n+1])
		var labels []string
		for label := range values {
			labels = append(labels, label)
		}
		slices.Sort(labels)
		for _, label := range labels {
			if _, ok := index[label]; !ok {
				index[label] = len(lines)
				name := strings.NewReplacer("{{ring}}", label, "{{wheel}}", label, "{{le}}", label).Replace(legend)
				lines = append(lines, line{name: name, values: make([]float64, len(all))})
			}
			lines[index[label]].values[n] = values[label]
		}
	}
	return lines
}

// A pen draws into one panel.
type pen struct {
	x, y, w, h float64
	out        strings.Builder
}

func (p *pen) put(format string, args ...any) { fmt.Fprintf(&p.out, format+"\n", args...) }

func (p *pen) text(x, y float64, anchor, colour, text string) {
	p.put(`<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>`, x, y, anchor, colour, html.EscapeString(text))
}

func (p *pen) box(title string) {
	p.put(`<rect x="%g" y="%g" width="%g" height="%g" rx="3" fill="#181b1f" stroke="#2c3235"/>`, p.x+8, p.y, p.w, p.h)
	p.text(p.x+18, p.y+18, "start", bright, title)
}

func (p *pen) stat(l line, unit, colour string) {
	p.path(l.values, slices.Max(l.values), p.y+p.h-30, p.y+p.h-2, nil, colour, p.x+9, p.w-2)
	p.put(`<text x="%g" y="%g" text-anchor="middle" fill="%s" font-size="30">%s</text>`,
		p.x+8+p.w/2, p.y+p.h/2+14, colour, amount(l.values[len(l.values)-1], unit))
}

// path draws values between two heights, filled down to a base line, if there is
// one, else to the bottom.
func (p *pen) path(values []float64, most, high, low float64, base []float64, colour string, left, width float64) {
	at := func(n int, v float64) string {
		return fmt.Sprintf("%.1f %.1f", left+width*float64(n)/float64(len(values)-1), low-(low-high)*v/max(most, 1e-9))
	}
	var edge, ground []string
	for n, v := range values {
		if math.IsNaN(v) {
			v = 0
		}
		edge = append(edge, at(n, v))
		b := 0.0
		if base != nil {
			b = base[n]
		}
		ground = append(ground, at(n, b))
	}
	slices.Reverse(ground)
	opacity := 0.1
	if base != nil {
		opacity = 0.35
	}
	p.put(`<path d="M%sL%sZ" fill="%s" fill-opacity="%g"/>`, strings.Join(edge, "L"), strings.Join(ground, "L"), colour, opacity)
	p.put(`<path d="M%s" fill="none" stroke="%s" stroke-width="1.3"/>`, strings.Join(edge, "L"), colour)
}

// plot returns the part of the panel that is drawn in, and writes the times below.
func (p *pen) plot() (left, right, high, low float64) {
	left, right, high, low = p.x+62, p.x+p.w-6, p.y+30, p.y+p.h-40
	for minute := 0; minute <= 30; minute += 5 {
		p.text(left+(right-left)*float64(minute)/30, low+14, "middle", dim, fmt.Sprintf("12:%02d", minute))
	}
	return left, right, high, low
}

func (p *pen) chart(lines []line, unit string, stacked bool) {
	left, right, high, low := p.plot()
	most := 0.0
	sums := make([]float64, len(lines[0].values))
	for _, l := range lines {
		for n, v := range l.values {
			if !math.IsNaN(v) {
				sums[n] += v
				most = max(most, v)
			}
		}
	}
	if stacked {
		most = slices.Max(sums)
	}
	step := nice(most / 4)
	most = max(step, math.Ceil(most/step)*step)
	for v := 0.0; v <= most*1.001; v += step {
		y := low - (low-high)*v/most
		p.put(`<path d="M%.1f %.1fH%.1f" stroke="#2c3235"/>`, left, y, right)
		p.text(left-6, y+4, "end", dim, amount(v, unit))
	}
	var base []float64
	if stacked {
		base = make([]float64, len(sums))
	}
	x := left
	for n, l := range lines {
		values := slices.Clone(l.values)
		for k := range base {
			values[k] += base[k]
		}
		p.path(values, most, high, low, base, colours[n%len(colours)], left, right-left)
		if stacked {
			base = values
		}
		p.put(`<path d="M%.1f %.1fh12" stroke="%s" stroke-width="3"/>`, x, p.y+p.h-14, colours[n%len(colours)])
		p.text(x+17, p.y+p.h-10, "start", bright, l.name)
		x += 34 + 6.2*float64(len(l.name))
	}
}

// heatmap draws cumulative buckets as rows of cells.
func (p *pen) heatmap(lines []line) {
	left, right, high, low := p.plot()
	byBound := map[string]float64{}
	for n, l := range lines {
		byBound[l.name] = float64(n)
	}
	all := bounds(byBound)
	row := (low - high) / float64(len(all))
	const each = 3 // scrapes in a cell
	cell := (right - left) / float64(len(lines[0].values)) * each
	for n, bound := range all {
		y := low - row*float64(n+1)
		if n%2 == 1 {
			p.text(left-6, y+row/2+4, "end", dim, "≤ "+amount(bound, "s"))
		}
		for at := 0; at < len(lines[0].values); at += each {
			count := lines[int(byBound[le(bound)])].values[at]
			if n > 0 {
				count -= lines[int(byBound[le(all[n-1])])].values[at]
			}
			if count > 0 {
				p.put(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#ff9830" fill-opacity="%.2f"/>`,
					left+cell*float64(at/each), y, cell-1, row-1, min(1, 0.15+math.Log10(count)/3))
			}
		}
	}
}

// nice rounds up to 1, 2 or 5 times a power of ten.
func nice(v float64) float64 {
	if v <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, factor := range []float64{1, 2, 5} {
		if v <= factor*power*1.0001 {
			return factor * power
		}
	}
	return 10 * power
}

// amount writes a value with its unit, as short as Grafana does.
func amount(v float64, unit string) string {
	short := func(v float64) string { return fmt.Sprintf("%.3g", v) }
	switch {
	case math.IsInf(v, 1):
		return "any"
	case unit == "s" && v >= 60:
		return short(v/60) + " min"
	case unit == "s" && v > 0 && v < 1:
		return short(v*1000) + " ms"
	case unit == "s":
		return short(v) + " s"
	case unit == "ops":
		return short(v) + "/s"
	case v >= 1000:
		return short(v/1000) + " K"
	}
	return short(v)
}
