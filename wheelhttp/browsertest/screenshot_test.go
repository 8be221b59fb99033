package browsertest

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/wheelhttp"
)

var screenshots = flag.String("screenshots", "", "write the pictures of the documentation to this directory")

// TestScreenshots makes the pictures in docs: a shop with orders of 15 minutes, some
// with less, that takes and cancels them while the page is looked at.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("no -screenshots")
	}
	b := open(t)
	server := shop(t)
	for _, s := range []struct {
		name, scheme, query string
		width, height       int64
		scale               float64
	}{
		{"page.png", "light", "?key=order-1042", 1280, 1160, 1},
		{"page-phone-dark.png", "dark", "?key=order-1042", 390, 1100, 1},
	} {
		b.scheme(s.scheme)
		b.do(chromedp.EmulateViewport(s.width, s.height, chromedp.EmulateScale(s.scale)), chromedp.Navigate(server.URL+mounted+s.query))
		b.until(live)
		b.until(`/^last (9|10)/.test(document.getElementById("w0-window").textContent)`)
		b.until(`document.getElementById("w0-running").textContent !== "0"`)
		shot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(*screenshots, s.name), smaller(t, shot), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// shop serves the page of a wheel with load.
func shop(t *testing.T) *httptest.Server {
	w, err := timingwheel.New(timingwheel.Options{Tick: 10 * time.Millisecond, Concurrency: 32})
	if err != nil {
		t.Fatal(err)
	}
	orders := timingwheel.NewKeyed(w, func(string) { time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond) })
	n := 0
	add := func(d time.Duration) {
		n++
		if err := orders.Add(fmt.Sprintf("order-%d", n), d); err != nil {
			t.Error(err)
		}
	}
	for range 24_000 {
		add(time.Duration(rand.Int64N(int64(15 * time.Minute))))
	}
	for range 400 {
		add(time.Duration(rand.ExpFloat64() * float64(6*time.Hour)))
	}
	var load sync.WaitGroup
	stop := make(chan struct{})
	load.Go(func() {
		for ticker := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-stop:
				ticker.Stop()
				return
			case <-ticker.C:
			}
			add(15 * time.Minute)
			add(time.Duration(rand.ExpFloat64() * float64(25*time.Second)))
			orders.Cancel(fmt.Sprintf("order-%d", 2000+rand.IntN(n)))
		}
	})
	t.Cleanup(func() { close(stop); load.Wait() })
	mux := http.NewServeMux()
	mux.Handle(mounted, wheelhttp.Handler(map[string]*timingwheel.Wheel{"orders": w},
		wheelhttp.Lookup("order", orders, nil, func(string) string { return "waits for payment by card" })))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// smaller reduces a picture to its 256 most frequent colours.
func smaller(t *testing.T, shot []byte) []byte {
	full, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		t.Fatal(err)
	}
	often := map[color.Color]int{}
	bounds := full.Bounds()
	each := func(f func(x, y int)) {
		for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
			for x := bounds.Min.X; x < bounds.Max.X; x++ {
				f(x, y)
			}
		}
	}
	each(func(x, y int) { often[full.At(x, y)]++ })
	colours := slices.SortedFunc(maps.Keys(often), func(a, b color.Color) int { return cmp.Compare(often[b], often[a]) })
	few := image.NewPaletted(bounds, colours[:min(256, len(colours))])
	nearest := map[color.Color]uint8{}
	each(func(x, y int) {
		c := full.At(x, y)
		index, ok := nearest[c]
		if !ok {
			index = uint8(few.Palette.Index(c))
			nearest[c] = index
		}
		few.SetColorIndex(x, y, index)
	})
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, few); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
