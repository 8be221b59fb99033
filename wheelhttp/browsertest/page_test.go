// Package browsertest tries the page of wheelhttp in a real browser. It is a
// module of its own, so that nobody else has to load what drives the browser.
package browsertest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/wheelhttp"
)

// A setup is a server with a wheel that stands still until a test moves it.
type setup struct {
	mock   *clock.Mock
	wheel  *timingwheel.Wheel
	orders *timingwheel.Keyed[string]
	server *httptest.Server
}

const mounted = "/debug/timingwheel/"

func serve(t *testing.T) *setup {
	t.Helper()
	s := &setup{mock: clock.NewMock()}
	var err error
	s.wheel, err = timingwheel.New(timingwheel.Options{Clock: timingwheel.ClockOf(s.mock), Tick: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s.orders = timingwheel.NewKeyed(s.wheel, func(string) {})
	mux := http.NewServeMux()
	mux.Handle(mounted, wheelhttp.Handler(map[string]*timingwheel.Wheel{"orders": s.wheel},
		wheelhttp.Lookup("order", s.orders, nil, func(string) string { return "<b>unpaid</b>" })))
	s.server = httptest.NewServer(mux)
	t.Cleanup(s.server.Close)
	return s
}

const live = `document.getElementById("live").textContent === "Live"`

func TestPageFollowsTheWheel(t *testing.T) {
	b, s := open(t), serve(t)
	quiet := b.quiet()
	b.do(chromedp.Navigate(s.server.URL + mounted))
	b.until(live)

	// A slot of the second ring, the seconds, fills and empties.
	const opacity = `document.getElementById("w0-r1s30").getAttribute("fill-opacity")`
	const title = `document.getElementById("w0-r1h30").textContent`
	if got := eval[string](b, opacity); got != "0" {
		t.Fatalf("the slot is shaded %s before anything was added", got)
	}
	task, err := s.wheel.Add(30*time.Second, func() {})
	if err != nil {
		t.Fatal(err)
	}
	b.until(opacity + ` === "1.00"`)
	b.until(title + `.startsWith("seconds, slot 30: 1 task, the hand comes at 00:00:30")`)
	b.until(`document.getElementById("w0-pending").textContent === "1"`)
	b.until(`!document.getElementById("w0-r1row30").hidden`)
	s.wheel.Cancel(task)
	b.until(opacity + ` === "0"`)
	b.until(`document.getElementById("w0-r1row30").hidden`)

	// The hands move, on the screen too, and forward only.
	const hand = `document.getElementById("w0-r1hand")`
	const turned = `(() => { const m = getComputedStyle(` + hand + `).transform.match(/[-0-9.e]+/g); return Math.atan2(m[1], m[0]) * 180 / Math.PI; })()`
	b.until(`Math.abs(` + turned + ` - 3) < 0.1`)
	s.mock.Add(15 * time.Second)
	b.until(`Math.abs(` + turned + ` - 93) < 0.1`)
	b.until(`document.getElementById("w0-r1at").textContent === "15"`)
	s.mock.Add(50 * time.Second)
	b.until(`Math.abs(` + turned + ` - 33) < 0.1`)
	b.until(hand + `.turned > 390 && ` + hand + `.turned < 394`)
	b.until(`document.getElementById("w0-r2at").textContent === "1"`)

	quiet()
	b.stayedHome(s.server)
}

// What the pointer is on is said in words, and those are kept up to date.
func TestPageSaysWhatIsPointedAt(t *testing.T) {
	b, s := open(t), serve(t)
	b.do(chromedp.EmulateViewport(1200, 900), chromedp.Navigate(s.server.URL+mounted))
	b.until(live)
	at := eval[[]float64](b, `(() => { const r = document.getElementById("w0-r1s15").getBoundingClientRect();
		return [r.x + r.width / 2, r.y + r.height / 2]; })()`)
	b.do(chromedp.MouseEvent("mouseMoved", at[0], at[1]))
	b.until(`document.querySelector(".pointed").textContent.startsWith("seconds, slot 15: 0 tasks")`)
	if _, err := s.wheel.Add(15*time.Second, func() {}); err != nil {
		t.Fatal(err)
	}
	b.until(`document.querySelector(".pointed").textContent.startsWith("seconds, slot 15: 1 task")`)
}

// Someone types an order number and is told why it has not expired.
func TestPageAnswersForAKey(t *testing.T) {
	b, s := open(t), serve(t)
	quiet := b.quiet()
	if err := s.orders.Add("order 42", 15*time.Minute); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Navigate(s.server.URL+mounted), chromedp.SendKeys(chromedp.CSS(`#key`), "order 42"))
	if _, err := chromedp.RunResponse(b.ctx, chromedp.Click(chromedp.CSS(`form button`))); err != nil {
		t.Fatal(err)
	}
	b.until(`document.querySelector(".answer")?.textContent.includes("It is not time yet: its deadline is at 00:15:00, in 15 min.")`)
	b.until(`document.querySelector(".answer").textContent.includes("<b>unpaid</b>")`)
	b.until(`document.getElementById("w0-r2s15").classList.contains("marked")`)
	b.until(live)
	s.orders.Cancel("order 42")
	b.until(`document.querySelector(".answer").textContent.includes("Not on the wheel")`)
	b.until(`document.querySelector(".marked") === null`)
	quiet()
}

func TestPageIsReadableWithoutAScript(t *testing.T) {
	b, s := open(t), serve(t)
	for range 1234 {
		if _, err := s.wheel.Add(30*time.Second, func() {}); err != nil {
			t.Fatal(err)
		}
	}
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}), chromedp.Navigate(s.server.URL+mounted))
	text, err := chromedp.Run(b.ctx, chromedp.Text(chromedp.CSS(`main`)))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Nothing is overdue. 1,234 tasks wait", "Pending", "Counters", "Lateness", "Rings"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q, but %s", want, text)
		}
	}
}

// Text that cannot be told from its ground, as elements with their contrast.
const pale = `(() => {
	const light = (css) => {
		const [r, g, b] = css.match(/[0-9.]+/g).map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!c.endsWith(", 0)")) return c; } return "rgb(255,255,255)"; };
	const bad = [];
	for (const e of document.querySelectorAll("body *:not(title)")) {
		if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim() !== "") || !e.checkVisibility()) continue;
		const style = getComputedStyle(e), a = light(e instanceof SVGElement ? style.fill : style.color), b = light(ground(e));
		const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (contrast < 4.5) bad.push(e.tagName + "." + e.className + " " + e.textContent.trim().slice(0, 30) + " " + contrast.toFixed(2));
	}
	return bad;
})()`

// Whatever sticks out of the window.
const beyond = `[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth).map((e) => e.tagName + " " + e.textContent.slice(0, 30))`

// Whatever has no name for a screen reader.
const nameless = `[
	...[...document.querySelectorAll("svg")].filter((e) => !e.getAttribute("aria-label") && e.getAttribute("aria-hidden") !== "true"),
	...[...document.querySelectorAll("table")].filter((e) => !e.caption || !e.caption.textContent.trim()),
	...[...document.querySelectorAll("th")].filter((e) => !e.scope),
	...[...document.querySelectorAll("input")].filter((e) => !e.labels.length),
	...[...document.querySelectorAll("img")].filter((e) => !e.hasAttribute("alt")),
].map((e) => e.outerHTML.slice(0, 80))`

func TestPageFitsEveryReader(t *testing.T) {
	b, s := open(t), serve(t)
	if err := s.orders.Add("42", 15*time.Minute); err != nil {
		t.Fatal(err)
	}
	s.wheel.Stop() // the loudest colours
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{320, 390, 800, 1280} {
			b.scheme(scheme)
			b.do(chromedp.EmulateViewport(width, 900), chromedp.Navigate(s.server.URL+mounted+"?key=42"))
			b.until(live)
			for _, e := range append(eval[[]string](b, pale), eval[[]string](b, nameless)...) {
				t.Errorf("%s, %d wide: %s", scheme, width, e)
			}
			if wide := eval[int64](b, `document.documentElement.scrollWidth`); wide > width {
				t.Errorf("%s: the page is %d wide in a window of %d: %s", scheme, wide, width, eval[[]string](b, beyond))
			}
		}
	}
}
