package pages_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/tidemark-go/tidemark/internal/auth"
)

// testHeld presses, selects, opens and fills in while the pages update themselves.
func testHeld(t *testing.T, b *tab, w *world) {
	t.Helper()
	b.logIn(w, auth.Operator)
	clickDuringUpdates(t, b, w)
	selectDuringUpdates(t, b, w)
	openDuringUpdates(t, b, w)
}

// watch opens a page and counts its reads of itself.
func (b *tab) watch(path string) {
	b.Helper()
	b.open(path)
	b.await("document.querySelector('#live').dataset.liveState === 'live'")
	b.do(chromedp.Evaluate[chromedp.Void](`{
		window.reads = 0;
		const fetch = window.fetch;
		window.fetch = async (...all) => { const answer = await fetch(...all); window.reads++; return answer; };
	}`))
}

// updated acts and waits until the page has read itself, and two frames more.
func (b *tab) updated(w *world, campaign, reason string) {
	b.Helper()
	reads := eval[int](b, "window.reads")
	form := url.Values{"projection": {"scores"}, "campaign": {campaign}, "reason": {reason}, "back": {"/audit"}}
	request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, w.base+"/act/requeueFailed",
		strings.NewReader(form.Encode()))
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Authorization", "Bearer "+w.token[auth.Operator])
	if status, body := do(b.T, request); status != http.StatusSeeOther {
		b.Fatalf("the act answers %d: %s", status, body)
	}
	b.await(fmt.Sprintf("window.reads > %d", reads))
	b.frames()
}

// frames waits until the page is drawn twice.
func (b *tab) frames() {
	b.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](`window.drawn = false;
		requestAnimationFrame(() => requestAnimationFrame(() => { window.drawn = true; }))`))
	b.await("window.drawn")
}

// middle returns the middle of an element, which an expression names.
func (b *tab) middle(element string) []float64 {
	b.Helper()
	return eval[[]float64](b, fmt.Sprintf(`(() => {
		const box = %s.getBoundingClientRect();
		return [box.x + box.width / 2, box.y + box.height / 2];
	})()`, element))
}

// mouse does a part of a click, as a hand does.
func (b *tab) mouse(kind input.DispatchMouseEventType, at []float64) {
	b.Helper()
	params := input.DispatchMouseEventParams{Type: kind, X: at[0], Y: at[1]}
	if kind != input.DispatchMouseEventTypeMouseMoved {
		params.Button, params.ClickCount = input.MouseButtonLeft, 1
	}
	if _, err := chromedp.Call(b.ctx, input.DispatchMouseEvent, params); err != nil {
		b.Fatal(err)
	}
}

// clickDuringUpdates presses a link, lets an update arrive, and lets go at the same place.
func clickDuringUpdates(t *testing.T, b *tab, w *world) {
	t.Helper()
	b.watch("/audit")
	b.updated(w, "cave-05", "before the clicks")
	b.sees("before the clicks")
	b.do(chromedp.Evaluate[chromedp.Void](`{
		window.clicks = [];
		document.addEventListener("click", (e) => {
			e.preventDefault();
			window.clicks.push(e.target.closest("a")?.getAttribute("href") ?? "nothing");
		}, true);
	}`))
	const link = `#list a[href*="cave-05"]`
	want := eval[string](b, fmt.Sprintf("document.querySelector(%q).getAttribute('href')", link))
	for i := range 6 {
		at := b.middle(fmt.Sprintf("document.querySelector(%q)", link))
		b.mouse(input.DispatchMouseEventTypeMouseMoved, at)
		b.mouse(input.DispatchMouseEventTypeMousePressed, at)
		b.updated(w, "cave-05", fmt.Sprintf("during click %d", i))
		b.mouse(input.DispatchMouseEventTypeMouseReleased, at)
		b.frames()
		b.sees(fmt.Sprintf("during click %d", i))
	}
	if got := eval[string](b, "window.clicks.join()"); got != strings.Repeat(","+want, 6)[1:] {
		t.Errorf("six clicks on %s during updates hit %s", want, got)
	}
}

// selectDuringUpdates selects a row and focuses a link while rows come before it.
func selectDuringUpdates(t *testing.T, b *tab, w *world) {
	t.Helper()
	b.watch("/audit")
	b.do(chromedp.Evaluate[chromedp.Void](`{
		window.row = document.querySelector("#list tbody tr:nth-child(2)");
		window.row.querySelector("a").focus();
		getSelection().selectAllChildren(window.row);
		window.text = getSelection().toString();
		document.querySelector("#list .scroll").scrollLeft = 40;
		window.scrolled = document.querySelector("#list .scroll").scrollLeft;
	}`))
	b.updated(w, "cave-05", "while a row is selected")
	b.sees("while a row is selected")
	for _, kept := range []string{
		"window.row.isConnected", "window.text.length > 40", "getSelection().toString() === window.text",
		"document.activeElement === window.row.querySelector('a')",
		"window.row === document.querySelector('#list tbody tr:nth-child(3)')",
		"window.scrolled > 0 && document.querySelector('#list .scroll').scrollLeft === window.scrolled",
	} {
		if !eval[bool](b, kept) {
			t.Errorf("after an update it is not so that %s: selected is %q", kept, eval[string](b, "getSelection().toString()"))
		}
	}
}

// openDuringUpdates opens forms and fills them in. The rest of the list is updated.
func openDuringUpdates(t *testing.T, b *tab, w *world) {
	t.Helper()
	const form = `form[action="/act/startRebuild"]`
	b.watch("/projections")
	b.await(fmt.Sprintf("document.querySelector(%q)", form))
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{
		window.form = document.querySelector(%q);
		window.summary = window.form.closest("details").querySelector("summary");
		window.summary.scrollIntoView({ block: "center" });
	}`, form)))
	for _, half := range []input.DispatchMouseEventType{
		input.DispatchMouseEventTypeMouseMoved, input.DispatchMouseEventTypeMousePressed,
		input.DispatchMouseEventTypeMouseReleased,
	} {
		b.mouse(half, b.middle("window.summary"))
	}
	b.await("window.form.closest('details').open")
	b.do(chromedp.Evaluate[chromedp.Void](`{
		window.form.elements.reason.value = "the tables are old";
		for (const box of window.form.querySelectorAll("input[type=checkbox]")) box.checked = true;
		document.activeElement.blur();
	}`))
	b.updated(w, "cave-06", "while a form is open")
	b.await(`document.querySelector("#list tbody tr:nth-child(2)").cells[5].innerText.trim() === "2"`)
	for _, kept := range []string{
		"window.form.isConnected", "window.form.closest('details').open",
		"window.form.elements.reason.value === 'the tables are old'",
		"[...window.form.querySelectorAll('input[type=checkbox]')].every((box) => box.checked)",
	} {
		if !eval[bool](b, kept) {
			t.Errorf("after an update it is not so that %s", kept)
		}
	}
}
