package browsertest

import (
	"context"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// patience is how long a browser on a busy machine may take for all of a test.
const patience = 2 * time.Minute

// A browser is one tab of a headless Chromium that can reach this machine only.
type browser struct {
	*testing.T
	ctx      context.Context
	mu       sync.Mutex
	requests []string // addresses that the page asked for
}

// open starts a browser, or skips the test where there is none.
func open(t *testing.T) *browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless-shell"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("there is no Chromium here: the page was not tried in a browser")
	}
	b := &browser{T: t}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	b.ctx, cancel = chromedp.NewContext(ctx, chromedp.WithListener(b.listen))
	t.Cleanup(cancel)
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
		return err
	}))
	return b
}

func (b *browser) listen(event any) {
	if e, ok := event.(*network.EventRequestWillBeSent); ok {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.requests = append(b.requests, e.Request.URL)
	}
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

// until waits for a JavaScript expression to become true.
func (b *browser) until(expression string) {
	b.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingInterval(20*time.Millisecond),
		chromedp.WithPollingTimeout(patience/4))); err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
}

// eval returns the value of a JavaScript expression.
func eval[T any](b *browser, expression string) T {
	b.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return value
}

// scheme makes the browser prefer light or dark.
func (b *browser) scheme(name string) {
	b.Helper()
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
		})
		return err
	}))
}

// quiet collects what the console says, until the function it returns demands
// that this was nothing.
func (b *browser) quiet() (check func()) {
	b.Helper()
	ctx, stop := context.WithCancel(b.ctx)
	messages := chromedp.Console(ctx)
	b.Cleanup(stop)
	return func() {
		b.Helper()
		// The console keeps its order: what comes before this was said before it.
		const last = "that was all"
		eval[chromedp.Void](b, `console.log("`+last+`")`)
		for m, err := range messages {
			if err != nil {
				b.Fatal(err)
			}
			if m.Text == last {
				return
			}
			b.Errorf("the console says: %v", m)
		}
	}
}

// stayedHome demands that all requests went to the server, and some did.
func (b *browser) stayedHome(server *httptest.Server) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	home, err := url.Parse(server.URL)
	if err != nil {
		b.Fatal(err)
	}
	seen := map[string]bool{}
	for _, request := range b.requests {
		u, err := url.Parse(request)
		if err != nil || u.Host != home.Host {
			b.Errorf("the page asked for %s", request)
			continue
		}
		seen[u.Path[strings.LastIndex(u.Path, "/")+1:]] = true
	}
	for _, name := range []string{"", "style.css", "script.js", "icon.svg", "events"} {
		if !seen[name] {
			b.Errorf("the page did not ask for %q, but for %v", name, b.requests)
		}
	}
}
