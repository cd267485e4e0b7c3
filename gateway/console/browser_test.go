package console

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is one tab of a real Chromium in front of a world.
type browser struct {
	t     *testing.T
	ctx   context.Context
	base  string
	other string // a site that the test itself goes to

	mu       sync.Mutex
	requests []string
	dialogs  []string
	problems []string // of the console: script errors, refusals of the policy
}

// chromium starts one browser for all tests of this package; each test gets its own profile.
var chromium = sync.OnceValues(func() (context.Context, error) {
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return nil, exec.ErrNotFound
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"))
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(ctx)
	stopBrowser = func() { cancel(); stop() }
	return ctx, chromedp.Do(ctx)
})

var stopBrowser = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	stopBrowser()
	os.Exit(code)
}

func (w *world) browse(t *testing.T) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes long")
	}
	parent, err := chromium()
	if err != nil {
		if os.Getenv("LATCHKEY_TEST_REQUIRE") == "1" {
			t.Fatal("no chromium, and LATCHKEY_TEST_REQUIRE=1: ", err)
		}
		t.Skip("no chromium (apt-get install chromium): ", err)
	}
	server := httptest.NewServer(w.console)
	t.Cleanup(server.Close)
	t.Cleanup(w.console.Close)
	ctx, cancel := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &browser{t: t, base: server.URL}
	if err := chromedp.Listen(ctx, b.heard); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(ctx, 3*time.Minute)
	t.Cleanup(stop)
	b.ctx = ctx
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	b.size(1280, 900)
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, r := range b.requests {
			if !strings.HasPrefix(r, b.base+Prefix) && !strings.HasPrefix(r, "about:") && (b.other == "" || !strings.HasPrefix(r, b.other)) {
				t.Errorf("a request left the console: %s", r)
			}
		}
		if len(b.requests) == 0 {
			t.Error("no request was seen, so nothing is known of where they went")
		}
		if len(b.dialogs) > 0 || len(b.problems) > 0 {
			t.Errorf("dialogs %q, script errors %q", b.dialogs, b.problems)
		}
	})
	return b
}

// heard keeps what the browser tells; it runs in the browser's loop.
func (b *browser) heard(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *cdpage.EventJavascriptDialogOpening:
		b.dialogs = append(b.dialogs, e.Message)
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, e.ExceptionDetails.Text)
	}
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 20*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("browser: %v; at %s", err, b.where())
	}
}

func (b *browser) where() string {
	at, _ := chromedp.Run(b.ctx, chromedp.Location())
	return at
}

func (b *browser) size(width, height int64) { b.do(chromedp.EmulateViewport(width, height)) }

func (b *browser) dark(on bool) {
	b.t.Helper()
	scheme := "light"
	if on {
		scheme = "dark"
	}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.base+Prefix+path), chromedp.WaitReady(chromedp.CSS("main")))
}

func (b *browser) signIn(key string) {
	b.t.Helper()
	b.open("/login")
	b.fill("#key", key)
	b.click("form .go")
	b.until(`document.querySelector("header.top") !== null`)
}

func (b *browser) fill(selector, text string) {
	b.t.Helper()
	b.do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

func (b *browser) click(selector string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

func (b *browser) keys(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// press presses one key as a keyboard does: a page that handles it keeps it from being typed.
func (b *browser) press(key string) {
	b.t.Helper()
	for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
		p := input.DispatchKeyEventParams{Type: kind, Key: key}
		if kind == input.DispatchKeyEventTypeKeyDown {
			p.Text = key
		}
		if _, err := chromedp.Call(b.ctx, input.DispatchKeyEvent, p); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *browser) text(selector string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

func eval[T any](b *browser, script string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script))
	if err != nil {
		b.t.Fatalf("%s: %v; at %s", script, err, b.where())
	}
	return v
}

// until waits for an expression to become true, over any number of page loads.
func (b *browser) until(expression string) {
	b.t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression)); err == nil && ok {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			b.t.Fatalf("never true: %s; at %s", expression, b.where())
		}
	}
}

var artifacts = sync.OnceValue(func() string { return os.Getenv("LATCHKEY_TEST_ARTIFACTS") })

// shot writes a picture of the whole page.
func (b *browser) shot(name string) {
	b.t.Helper()
	dir := artifacts()
	if dir == "" {
		dir = b.t.ArtifactDir()
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// Pictures for people, and what can be checked of every page at every width: nothing is wider
// than the screen, everything has a name, text stands out from its ground.
func TestBrowserPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.night(t)
	w.notices = []string{"Faults are injected on purpose: send_invoice_email loses 20 % of its answers."}
	w.breakers["bank"] = "open"
	b := w.browse(t)
	b.open("/login")
	b.shot("login")
	b.signIn(operatorKey)
	pages := map[string]string{
		"attention": "/attention", "approvals": "/approvals", "search": "/search?q=" + url.QueryEscape("since:2d"), "run": "/run?id=run-42",
		"tools": "/tools", "overview": "/overview", "bulk": "/bulk?q=&choice=did_not_happen",
		"receipt-unknown": "/receipts/" + n.looked.Key.String(), "receipt-parked": "/receipts/" + n.parked.Key.String(), "receipt-approval": "/receipts/" + n.wire.Key.String(),
		"receipt-doubt": "/receipts/" + n.doubt.Key.String(), "receipt-done": "/receipts/" + n.done.Key.String(), "receipt-declined": "/receipts/" + n.declined.Key.String(),
		"error": "/receipts/" + key("nothing").String(), "search-wrong": "/search?q=status:lost",
	}
	for name, path := range pages {
		b.dark(false)
		b.size(1280, 900)
		b.open(path)
		for _, width := range []int64{1280, 360} {
			for _, dark := range []bool{false, true} {
				b.size(width, 900)
				b.dark(dark)
				at := fmt.Sprintf("%s-%d", name, width)
				if dark {
					at += "-dark"
				}
				if artifacts() != "" || name == "attention" {
					b.shot(at)
				}
				for _, p := range eval[[]string](b, audit) {
					t.Errorf("%s: %s", at, p)
				}
			}
		}
	}
}

// audit is what tools for accessibility check first, in a page of script.
const audit = `(() => {
  const out = [], seen = new Set();
  const say = (s) => { if (!seen.has(s)) { seen.add(s); out.push(s); } };
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    const wide = [...document.querySelectorAll("main *")].find((e) => e.getBoundingClientRect().right > root.clientWidth + 1 && getComputedStyle(e).position !== "absolute");
    say("wider than the screen: " + root.scrollWidth + (wide ? " by " + wide.tagName + "." + wide.className : ""));
  }
  if (!root.lang) say("no language");
  if (document.querySelectorAll("h1").length !== 1) say("not one h1");
  if (document.querySelectorAll("main").length !== 1) say("not one main");
  const visible = (e) => e.getClientRects().length > 0 && getComputedStyle(e).visibility !== "hidden";
  for (const f of document.querySelectorAll("input:not([type=hidden]), textarea, select"))
    if (!f.labels.length && !f.getAttribute("aria-label")) say("no label: " + (f.id || f.name));
  for (const e of document.querySelectorAll("a[href], button, summary"))
    if (!(e.textContent.trim() || e.getAttribute("aria-label"))) { if (visible(e)) say("no name: " + e.outerHTML.slice(0, 90)); }
  for (const e of document.querySelectorAll("svg"))
    if (!e.getAttribute("aria-hidden") && !(e.getAttribute("role") === "img" && e.getAttribute("aria-label"))) say("a picture without words");
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  ids.filter((id, i) => ids.indexOf(id) !== i).forEach((id) => say("id twice: " + id));
  for (const e of document.querySelectorAll("[aria-labelledby], [aria-describedby]"))
    for (const id of ((e.getAttribute("aria-labelledby") || "") + " " + (e.getAttribute("aria-describedby") || "")).trim().split(/\s+/))
      if (!document.getElementById(id)) say("names nothing: " + id);
  let level = 1;
  for (const h of document.querySelectorAll("main h1, main h2, main h3")) { const n = +h.tagName[1]; if (n > level + 1) say("heading skips to " + h.textContent); level = n; }
  const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return {r: m[0], g: m[1], b: m[2], a: m.length > 3 ? m[3] : 1}; };
  const lum = (c) => { const f = (v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }; return .2126 * f(c.r) + .7152 * f(c.g) + .0722 * f(c.b); };
  const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.a > .99) return c; } return {r: 255, g: 255, b: 255}; };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || !visible(e) || e.closest("script, style, .hide, [disabled], title, .skip")) continue;
    const style = getComputedStyle(e);
    const ink = parse(e.closest("svg") ? style.fill === "none" ? style.color : style.fill : style.color);
    const a = lum(ink), b = lum(ground(e)), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) say("contrast " + ratio.toFixed(2) + ": " + e.tagName + "." + (e.getAttribute("class") || "") + " " + walk.currentNode.textContent.trim().slice(0, 40));
  }
  return out;
})()`
