package pages_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/tidemark-go/tidemark/internal/auth"
)

// startBrowser starts the single browser of a test. Its contexts are isolated like private windows.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	path := browser(t)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("disable-gpu", true), chromedp.Flag("lang", "en-US"), chromedp.WSURLReadTimeout(tabTimeout),
		chromedp.Env("TZ=America/St_Johns"))
	ctx, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(stop)
	ctx, closeBrowser := chromedp.NewContext(ctx)
	t.Cleanup(closeBrowser)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	return ctx
}

// browser returns the path of a chromium. It prefers the headless shell, which takes less than half
// the work.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "chromium"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no chromium: install Debian's package chromium-headless-shell or chromium, or run scripts/need.sh chromium")
	return ""
}

// tab is a private window. It fails the test for each error on its console and each violation of
// the content security policy.
type tab struct {
	*testing.T
	ctx  context.Context
	base string

	mu       sync.Mutex
	faults   []string
	expected []string
}

const tabTimeout = 3 * time.Minute

func openTab(browser context.Context, t *testing.T, w *world, width, height int64) *tab {
	t.Helper()
	ctx, stop := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(stop)
	b := &tab{T: t, ctx: ctx, base: w.base}
	b.do(chromedp.EmulateViewport(width, height))
	messages := chromedp.Console(ctx)
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Type == "error" || m.Type == "warning" || m.Type == chromedp.ConsoleException {
				b.mu.Lock()
				b.faults = append(b.faults, fmt.Sprintf("%s (%s)", m.Text, m.URL))
				b.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-seen
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, f := range b.faults {
			if !slices.Contains(b.expected, f) {
				t.Errorf("the console says %s", f)
			}
		}
	})
	return b
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, stop := context.WithTimeout(b.ctx, tabTimeout)
	defer stop()
	if len(actions) > 0 && chromedp.Do(b.ctx) != nil { // opens the tab with a context that outlasts the timeout
		b.Fatal("the tab does not open")
	}
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.picture("failed")
		b.Fatalf("%v", err)
	}
}

func (b *tab) open(path string) {
	b.Helper()
	b.do(chromedp.Navigate(b.base + path))
}

// eval returns the value of an expression.
func eval[T any](b *tab, expression string) T {
	b.Helper()
	ctx, stop := context.WithTimeout(b.ctx, tabTimeout)
	defer stop()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return value
}

// await waits until an expression is true.
func (b *tab) await(expression string) {
	b.Helper()
	deadline := time.Now().Add(tabTimeout)
	for time.Now().Before(deadline) {
		ctx, stop := context.WithTimeout(b.ctx, tabTimeout)
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		stop()
		if err == nil && ok {
			return
		}
		select {
		case <-b.ctx.Done():
			b.Fatal(b.ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	b.picture("awaited")
	b.Fatalf("it does not become true: %s", expression)
}

// sees waits until the page contains a text.
func (b *tab) sees(text string) {
	b.Helper()
	b.await(fmt.Sprintf("document.querySelector('main')?.innerText.includes(%q)", text))
}

// press clicks a button or a link and waits for the next page.
func (b *tab) press(selector string) {
	b.Helper()
	b.await(fmt.Sprintf("document.querySelector(%q)", selector))
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("window.before = true; document.querySelector(%q).click()",
		selector)))
	b.loaded()
}

// click clicks an element that leads to no other page.
func (b *tab) click(selector string) {
	b.Helper()
	b.await(fmt.Sprintf("document.querySelector(%q)?.checkVisibility()", selector))
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelector(%q).click()", selector)))
}

// loaded waits for the page after the one that press has marked.
func (b *tab) loaded() {
	b.Helper()
	b.await("!window.before && document.readyState === 'complete'")
}

// fill writes into a field that is shown.
func (b *tab) fill(selector, text string) {
	b.Helper()
	b.await(fmt.Sprintf("document.querySelector(%q)", selector))
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelector(%[1]q).closest('details')?.setAttribute('open', ''); document.querySelector(%[1]q).focus()", selector)))
	b.await(fmt.Sprintf("document.activeElement === document.querySelector(%q)", selector))
	if _, err := chromedp.Call(b.ctx, input.InsertText, input.InsertTextParams{Text: text}); err != nil {
		b.Fatal(err)
	}
}

func (b *tab) logIn(w *world, role auth.Role) {
	b.Helper()
	b.open("/")
	b.await("location.pathname === '/login'")
	b.fill("#token", w.token[role])
	b.press("button[type=submit]")
	b.await("location.pathname === '/'")
}

// key presses a key as a hand does. A key that the page handles writes no text.
func (b *tab) key(key string) {
	b.Helper()
	for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
		params := input.DispatchKeyEventParams{Type: kind, Key: key}
		if kind == input.DispatchKeyEventTypeKeyDown {
			params.Text = key
		}
		if _, err := chromedp.Call(b.ctx, input.DispatchKeyEvent, params); err != nil {
			b.Fatal(err)
		}
	}
}

// expect allows a message on the console.
func (b *tab) expect(message string) { b.expected = append(b.expected, message) }

// noScript disables the page's scripts. Scripts through the debugger still run.
func (b *tab) noScript() {
	b.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		b.Fatal(err)
	}
}

func (b *tab) media(features ...string) {
	b.Helper()
	var params emulation.SetEmulatedMediaParams
	for _, f := range features {
		name, value, _ := strings.Cut(f, "=")
		params.Features = append(params.Features, &emulation.MediaFeature{Name: name, Value: value})
	}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, params); err != nil {
		b.Fatal(err)
	}
}

// shot takes a picture of the page if asked for: go test ./internal/surface/pages -artifacts
// -outputdir DIR. Otherwise it does nothing, because pictures took a good part of the journeys'
// time.
func (b *tab) shot(name string) {
	b.Helper()
	if wanted, _ := strconv.ParseBool(flag.Lookup("test.artifacts").Value.String()); wanted {
		b.picture(name)
	}
}

// picture saves a picture of the whole page as a test artifact.
func (b *tab) picture(name string) {
	b.Helper()
	ctx, stop := context.WithTimeout(b.ctx, tabTimeout)
	defer stop()
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.Errorf("picture %s: %v", name, err)
		return
	}
	if err := os.WriteFile(filepath.Join(b.ArtifactDir(), name+".png"), picture, 0o644); err != nil {
		b.Error(err)
	}
}
