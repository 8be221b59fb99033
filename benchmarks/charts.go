package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The colours are those of Okabe and Ito, which people who confuse red and green
// can tell apart; marks and dashes differ, too.
var (
	blue       = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	vermillion = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	green      = color.RGBA{0x00, 0x9e, 0x73, 0xff}
	purple     = color.RGBA{0xaa, 0x44, 0x88, 0xff}
	pale       = color.RGBA{0xe4, 0xe4, 0xe4, 0xff}

	styles = []style{
		{blue, draw.CircleGlyph{}, nil},
		{vermillion, draw.BoxGlyph{}, []vg.Length{7, 3}},
		{green, draw.PyramidGlyph{}, []vg.Length{2, 2}},
		{purple, draw.CrossGlyph{}, []vg.Length{7, 3, 2, 3}},
	}
)

type style struct {
	color  color.Color
	mark   draw.GlyphDrawer
	dashes []vg.Length
}

const chartWidth, chartHeight = 7.2 * vg.Inch, 4.3 * vg.Inch

// drawCharts draws all charts of a run into a directory.
func drawCharts(r *results, dir string) error {
	for name, draw := range map[string]func(*results) (*plot.Plot, error){
		"cost.svg": costChart, "memory.svg": memoryChart, "lateness.svg": latenessChart, "latency.svg": latencyChart,
	} {
		p, err := draw(r)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := saveChart(p, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// saveChart writes a chart as SVG, with a margin. It asks for the font that its text
// was measured with, or else for those that are as wide.
func saveChart(p *plot.Plot, path string) error {
	canvas := vgsvg.New(chartWidth, chartHeight)
	page := draw.New(canvas)
	page.SetColor(color.White)
	page.Fill(page.Rectangle.Path())
	p.Draw(draw.Crop(page, 10, -24, 8, -10))
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return err
	}
	text := bytes.ReplaceAll(svg.Bytes(), []byte("Liberation Sans"), []byte("Liberation Sans,Arial,Helvetica,sans-serif"))
	return os.WriteFile(path, text, 0o644)
}

// newChart returns a chart on white, which stays readable on a dark page, with the
// legend in a margin above the data.
func newChart(title, x, y string) *plot.Plot {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text = title
	p.Title.TextStyle.Font.Size = 13
	p.Title.Padding = 8
	p.X.Label.Text, p.Y.Label.Text = x, y
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font.Size = 11
		a.Label.Padding = 4
		a.Tick.Label.Font.Size = 10
	}
	p.Legend.TextStyle.Font.Size = 10
	p.Legend.TextStyle.Font.Variant = "Sans"
	p.Legend.Padding = 2
	p.Legend.ThumbnailWidth = 30
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs = 6
	p.Legend.YOffs = -4
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = pale, pale
	p.Add(grid)
	return p
}

// A band is a line of medians, with a bar from the smallest to the largest count
// at each point.
type band struct {
	plotter.XYs
	plotter.YErrors
}

func (b *band) add(x float64, s sample) {
	if len(s) == 0 || math.IsNaN(s.median()) {
		return
	}
	b.XYs = append(b.XYs, plotter.XY{X: x, Y: s.median()})
	b.YErrors = append(b.YErrors, struct{ Low, High float64 }{s.median() - s.min(), s.max() - s.median()})
}

// draw adds a band to a chart under a name.
func (b *band) draw(p *plot.Plot, name string, s style) error {
	if len(b.XYs) == 0 {
		return nil
	}
	line, marks, err := plotter.NewLinePoints(b.XYs)
	if err != nil {
		return err
	}
	line.Color, line.Width, line.Dashes = s.color, 1.8, s.dashes
	marks.Color, marks.Shape, marks.Radius = s.color, s.mark, 3.2
	bars, err := plotter.NewYErrorBars(b)
	if err != nil {
		return err
	}
	bars.Color, bars.CapWidth = s.color, 5
	p.Add(bars, line, marks)
	p.Legend.Add(name, line, marks)
	return nil
}

// logarithmic makes the y axis of a chart logarithmic, from low to high.
func logarithmic(p *plot.Plot, low, high float64) {
	p.Y.Scale = plot.LogScale{}
	p.Y.Tick.Marker = decades{}
	p.Y.Min, p.Y.Max = low, high
}

// decades are ticks at 1, 2 and 5 of each power of ten, written as plain numbers.
type decades struct{}

func (decades) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for power := math.Floor(math.Log10(low)); power <= math.Log10(high); power++ {
		for _, digit := range []float64{1, 2, 5} {
			v := digit * math.Pow(10, power)
			if v < low*0.999 || v > high*1.001 {
				continue
			}
			label := ""
			if digit == 1 || high/low < 1000 {
				label = plain(v)
			}
			ticks = append(ticks, plot.Tick{Value: v, Label: label})
		}
	}
	return ticks
}

// plain writes a number the way people do: 10K, 1M.
func plain(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%gM", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%gK", v/1e3)
	}
	return fmt.Sprintf("%.3g", v)
}

// costChart shows the cost of an operation against the number of pending tasks.
func costChart(r *results) (*plot.Plot, error) {
	p := newChart("Cancel a random timeout and add another", "pending timeouts", "ns for both, one goroutine")
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{}
	high := 0.0
	for i, c := range impls {
		var b band
		for _, n := range pendingSizes {
			s := r.cost("CancelRandomAdd", c.name, n.n)
			b.add(float64(r.size(n.n)), s)
			high = math.Max(high, s.max())
		}
		if err := b.draw(p, c.title, styles[i]); err != nil {
			return nil, err
		}
	}
	p.X.Min, p.X.Max = float64(r.size(8_000)), float64(r.size(13_000_000))
	logarithmic(p, 20, high*4)
	return p, nil
}

// memoryChart shows what each pending timeout holds, and what stays after a burst.
func memoryChart(r *results) (*plot.Plot, error) {
	p := newChart("Memory per timeout, 1M pending, beside its closure and handle", "", "bytes per timeout")
	names := make([]string, len(impls))
	high := 0.0
	for k, bar := range []struct {
		what, title string
		color       color.Color
	}{{"Memory", "while pending", blue}, {"AfterBurst", "still held after all were cancelled", vermillion}} {
		values := make(plotter.Values, len(impls))
		for i, c := range impls {
			names[i] = c.title
			values[i] = math.Max(0, r.sample(fmt.Sprintf("%s/impl=%s/pending=%d", bar.what, c.name, r.size(million)), "B/task").median())
			high = math.Max(high, values[i])
		}
		if err := addBars(p, values, bar.title, bar.color, vg.Length(k*2-1)*19); err != nil {
			return nil, err
		}
	}
	p.NominalX(names...)
	p.X.Tick.Width = 0
	p.Y.Min, p.Y.Max = 0, high*1.35
	return p, nil
}

// addBars adds bars with their values above them.
func addBars(p *plot.Plot, values plotter.Values, title string, c color.Color, offset vg.Length) error {
	bars, err := plotter.NewBarChart(values, 36)
	if err != nil {
		return err
	}
	bars.Color, bars.LineStyle.Width, bars.Offset = c, 0, offset
	var labels plotter.XYLabels
	for i, v := range values {
		labels.XYs = append(labels.XYs, plotter.XY{X: float64(i), Y: v})
		labels.Labels = append(labels.Labels, fmt.Sprintf("%.0f", v))
	}
	text, err := plotter.NewLabels(labels)
	if err != nil {
		return err
	}
	for i := range text.TextStyle {
		text.TextStyle[i].XAlign = draw.XCenter
		text.TextStyle[i].Font.Size = 10
		text.TextStyle[i].Font.Variant = "Sans"
	}
	text.Offset = vg.Point{X: offset, Y: 4}
	p.Add(bars, text)
	p.Legend.Add(title, bars)
	return nil
}

// nines are the quantiles of a chart whose x axis gives as much room to each
// further nine, and their places on it.
var nines = []struct {
	unit, label string
	x           float64
}{{"p50-ns", "50 %", 0.30}, {"p90-ns", "90 %", 1}, {"p99-ns", "99 %", 2}, {"p99.9-ns", "99.9 %", 3}, {"p99.99-ns", "99.99 %", 4}, {"max-ns", "all", 5}}

// ninesAxis labels the x axis of a chart with the nines.
func ninesAxis(p *plot.Plot) {
	var ticks plot.ConstantTicks
	for _, n := range nines {
		ticks = append(ticks, plot.Tick{Value: n.x, Label: n.label})
	}
	p.X.Tick.Marker = ticks
	p.X.Min, p.X.Max = 0, 5.2
}

// latencyChart shows how long calls of Add take while tasks cascade and fall due.
func latencyChart(r *results) (*plot.Plot, error) {
	p := newChart("Latency of Add with 1M tasks pending", "share of calls that took no longer", "µs")
	high := 0.0
	for i, line := range []struct{ impl, phase, title string }{
		{"wheel", "quiet", "wheel, nothing else going on"},
		{"wheel", "cascade", "wheel, while all 1M cascade"},
		{"wheel", "due", "wheel, while all 1M fall due"},
		{"afterfunc", "due", "time.AfterFunc, while all 1M fall due"},
	} {
		var b band
		for _, n := range nines {
			s := r.sample("AddLatency/impl="+line.impl+"/phase="+line.phase, n.unit).times(1e-3)
			b.add(n.x, s)
			high = math.Max(high, s.max())
		}
		if err := b.draw(p, line.title, styles[i]); err != nil {
			return nil, err
		}
	}
	ninesAxis(p)
	logarithmic(p, 0.02, high*2)
	return p, nil
}

// latenessChart shows how late callbacks start, as a distribution.
func latenessChart(r *results) (*plot.Plot, error) {
	p := newChart("Lateness of callbacks: 20K adds a second, tick 10 ms", "lateness, ms (before 0: too early)", "share of callbacks, %")
	low, high := 0.0, 0.0
	for i, c := range impls {
		var points plotter.XYs
		for _, q := range quantiles {
			if x := r.sample("Lateness/impl="+c.name, q.name).median() / 1e6; !math.IsNaN(x) {
				points = append(points, plotter.XY{X: x, Y: 100 * q.q})
			}
		}
		if len(points) == 0 {
			continue
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width, line.Dashes = styles[i].color, 1.8, styles[i].dashes
		p.Add(line)
		p.Legend.Add(c.title, line)
		low, high = math.Min(low, points[0].X), math.Max(high, points[len(points)-2].X)
	}
	p.X.Min, p.X.Max = low-1, math.Min(high, 30)+1
	p.Y.Min, p.Y.Max = 0, 100
	return p, nil
}
