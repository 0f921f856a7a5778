package pages_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/publications"
)

// TestJourneys follows a person on call in a real browser. All journeys share the browser, each in
// a private window and a world of its own.
func TestJourneys(t *testing.T) {
	t.Parallel()
	filled := fillWorld(t)
	browser := startBrowser(t)
	for _, journey := range []struct {
		name string
		walk func(t *testing.T, b *tab, w *world)
	}{
		{"finds_what_is_wrong_and_requeues_a_dead_pair_with_a_reason", testRequeue},
		{"shows_hostile_text_as_text", testHostile},
		{"slides_a_campaign_over_seq", testSlide},
		{"pauses_and_resumes_a_publisher", testPause},
		{"sends_all_parked_events_again_and_rewinds_a_publisher_after_a_preview", testRewind},
		{"resolves_a_dead_pair_after_a_typed_confirmation", testResolve},
		{"looks_for_gaps_and_repairs_them", testGaps},
		{"sends_a_slice_of_a_campaign_again_and_aborts_another", testRepublish},
		{"replays_verifies_and_pauses_a_campaign", testCampaignActs},
		{"drains_a_worker", testDrain},
		{"pauses_and_aborts_a_rebuild", testRebuild},
		{"acts_on_all_that_match_after_a_typed_confirmation", testBulk},
		{"erases_and_saves_the_certificate", testErase},
		{"moves_by_keys", testKeys},
		{"keeps_what_is_pressed_selected_opened_and_filled_in_while_it_updates", testHeld},
		{"shows_what_happens_without_being_asked_until_paused", testLive},
		{"is_dark_and_light", testColours},
		{"fits_a_phone", testPhone},
		{"keeps_columns_and_rows_readable_on_a_laptop", testWidths},
		{"hides_acts_and_payloads_from_viewers", testViewer},
		{"works_without_script", testNoScript},
		{"keeps_to_rules_of_accessibility", testAccess},
	} {
		t.Run(journey.name, func(t *testing.T) {
			t.Parallel()
			w := copyWorld(t, filled)
			journey.walk(t, openTab(browser, t, w, 1280, 900), w)
		})
	}
}

func testRequeue(t *testing.T, b *tab, w *world) {
	t.Helper()
	b.logIn(w, auth.Operator)
	b.sees("Problems")
	b.sees("projection scores")
	b.shot("overview")
	const link = `[...document.querySelectorAll("#problems li")].find((li) => li.innerText.includes("projection scores"))?.querySelector("a.go")`
	b.await(link)
	b.do(chromedp.Evaluate[chromedp.Void]("window.before = true; " + link + ".click()"))
	b.loaded()
	b.await("location.pathname === '/failed' && location.search.includes('projection=scores')")
	b.open("/failed")
	b.shot("failed")
	b.do(chromedp.Evaluate[chromedp.Void](`window.before = true; [...document.querySelectorAll("#list tbody a")].find((a) => a.innerText.includes("curse")).click()`))
	b.loaded()
	b.await("location.search.includes('fingerprint=')")
	b.press(`#list a[href*="campaign=cave-03"]`)
	b.sees("panic: scores: cannot divide by a curse")
	b.sees(`"spell": "hex"`)
	b.sees("goroutine ")
	b.shot("pair")
	b.fill(`form[action="/act/requeueFailed"] [name=reason]`, "the curse is lifted; deploy 1.2")
	b.press(`form[action="/act/requeueFailed"] button`)
	b.sees("Requeued scores in cave-03")
	if !eval[bool](b, `location.search.includes("campaign=cave-03")`) {
		t.Error("after the act another page is shown than before")
	}
	pair, err := failed.Show(t.Context(), w.pool, failed.Key{Projection: "scores", CampaignID: "cave-03"})
	if err != nil || pair.Status != failed.Failed || pair.Attempts != 0 {
		t.Errorf("the pair is %+v, %v; it should wait for a worker", pair, err)
	}
	b.open("/audit?campaign=cave-03")
	b.sees("the curse is lifted; deploy 1.2")
	b.sees("operator")
	b.shot("audit")
}

func testHostile(t *testing.T, b *tab, w *world) {
	t.Helper()
	b.logIn(w, auth.Admin)
	for _, path := range []string{
		"/event?seq=1&campaign=", "/campaign?id=", "/campaign?seq=1&id=", "/failed/campaign?projection=scores&campaign=",
		"/failed?of=all&projection=scores&campaign=", "/audit?of=failures&campaign=",
		"/parked?topic=campaign-events&publisher=billing&seq=1&campaign=", "/campaigns?prefix=",
	} {
		b.open(path + url.QueryEscape(hostileID))
		b.await("document.title.endsWith('Tidemark')")
		if n := eval[int](b, `document.querySelectorAll("img, main script, main iframe").length`); n > 0 {
			t.Errorf("%s: %d elements have come from a text", path, n)
		}
		if eval[bool](b, `/[\u202A-\u202E\u2066-\u2069\u200B]/.test(document.body.innerText)`) {
			t.Errorf("%s: a text turns the direction of what follows, or hides something", path)
		}
		if n := eval[int](b, "document.documentElement.outerHTML.length"); n > 400_000 {
			t.Errorf("%s has %d bytes: texts must be cut", path, n)
		}
	}
	b.open("/event?seq=1&campaign=" + url.QueryEscape(hostileID))
	b.sees("</pre><script>document.title='owned'</script>")
	b.sees("U+202E")
	b.sees("Shown are the first 64 KiB")
	b.shot("hostile")
	status, whole := w.get(t, auth.Admin, "/event/payload?seq=1&campaign="+url.QueryEscape(hostileID))
	if status != http.StatusOK || len(whole) < megabyte/2 {
		t.Errorf("the whole payload answers %d with %d bytes", status, len(whole))
	}
}

func testSlide(t *testing.T, b *tab, w *world) {
	t.Helper()
	b.logIn(w, auth.Operator)
	b.open("/campaign?id=oak")
	b.press(`#timeline tbody a[href*="seq=5"][href*="/campaign"]`)
	b.sees("after event 5 of 15")
	b.sees(`{"hp": 51, "name": "Alina"} → {"hp": 48, "name": "Alina"}`)
	b.slide(9)
	b.sees(`{"hp": 39, "name": "Alina"} → {"hp": 36, "name": "Alina"}`)
	b.await(`document.querySelector("#timeline tr.here th").innerText === "9" && new URLSearchParams(location.search).get("seq") === "9"`)
	b.shot("campaign")
	b.do(chromedp.KeyEvent(kb.ArrowLeft)) // the slider still has the focus
	b.sees("after event 8 of 15")
	b.await(`document.activeElement.id === "slide" && window.before`)
	b.press(`.slider a[rel=prev]`)
	b.sees("after event 7 of 15")
	b.open("/campaign?id=oak&seq=0")
	b.sees("Before the first event.")
}

// slide moves the campaign's slider and waits until the page shows that event, without a reload.
func (b *tab) slide(seq int) {
	b.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`window.before = true; {
		const slide = document.querySelector("#slide");
		slide.focus();
		slide.value = "%d";
		for (const name of ["input", "change"]) slide.dispatchEvent(new Event(name, { bubbles: true }));
	}`, seq)))
	b.sees(fmt.Sprintf("after event %d of 15", seq))
	b.await(`document.activeElement.id === "slide"`)
	if !eval[bool](b, "window.before === true") {
		b.Error("the page was loaded anew")
	}
}

func testPause(t *testing.T, b *tab, w *world) {
	t.Helper()
	b.logIn(w, auth.Operator)
	b.open("/publishers")
	b.press(`#list a[href*="publisher=audit-trail"]`)
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("form[action='/act/pausePublisher'] [name=for]").value = "4h"`))
	b.fill(`form[action="/act/pausePublisher"] [name=reason]`, "their maintenance window")
	b.press(`form[action="/act/pausePublisher"] button`)
	b.sees("Paused publisher")
	b.sees("their maintenance window")
	b.sees("in 3h")
	b.shot("publisher-paused")
	state := func() publications.Publication {
		all, err := publications.List(t.Context(), w.pool, publications.Key{
			Topic:     "campaign-events",
			Publisher: "audit-trail",
		})
		if err != nil || len(all) != 1 {
			t.Fatalf("publisher: %v, %v", all, err)
		}
		return all[0]
	}
	if p := state(); p.Status != "PAUSED" || p.PausedUntil == nil || p.Actor != "operator" {
		t.Errorf("the publisher is %+v, it should be paused by operator until a time", p)
	}
	b.fill(`form[action="/act/resumePublisher"] [name=reason]`, "it is over")
	b.press(`form[action="/act/resumePublisher"] button`)
	b.sees("Resumed publisher")
	if p := state(); p.Status != "ACTIVE" {
		t.Errorf("the publisher is %s after it was resumed", p.Status)
	}
}

func testRewind(t *testing.T, b *tab, w *world) {
	t.Helper()
	b.logIn(w, auth.Admin)
	resendParked(t, b, w) // must come before the rewind, which deletes the parked events
	b.open("/publishers/pair?topic=campaign-events&publisher=billing")
	b.press(`a[href^="/act/resetPublisher"]`)
	b.fill("#position", "3")
	b.press(`form[action="/act/resetPublisher"]:not([method=post]) button`)
	b.sees("sent again")
	const confirm = `form[method=post][action="/act/resetPublisher"]`
	if !eval[bool](b, fmt.Sprintf("document.querySelector(%q).disabled", confirm+" button")) {
		t.Error("the button may be pressed before anything was typed")
	}
	b.shot("rewind")
	b.fill(confirm+" [name=confirm]", "billing")
	b.fill(confirm+" [name=reason]", "they lost a day")
	b.press(confirm + " button")
	b.sees("stands at position 3 now")
	b.open("/publishers/pair?topic=campaign-events&publisher=billing")
	b.sees("they lost a day")
}

func testKeys(t *testing.T, b *tab, w *world) {
	t.Helper()
	b.logIn(w, auth.Viewer)
	b.open("/failed?of=all")
	b.click("#live") // turns live updates off: a late one must not move the rows
	b.await("document.querySelector('#live').getAttribute('aria-pressed') === 'true'")
	b.key("/")
	b.await("document.activeElement.id === 'find'")
	b.do(chromedp.KeyEvent("oak"))
	if got := eval[string](b, "document.activeElement.value"); got != "oak" {
		t.Errorf("in a field keys write %q, want oak", got)
	}
	b.do(chromedp.Evaluate[chromedp.Void]("window.before = true"), chromedp.KeyEvent("\r"))
	b.loaded()
	b.await(`location.pathname === "/campaigns" && document.querySelector("#list tbody a").innerText === "oak"`) // the search
	b.open("/failed?of=all")
	row := func() int {
		return eval[int](b,
			`[...document.querySelectorAll("#list tbody tr")].findIndex((r) => r.contains(document.activeElement))`)
	}
	for _, press := range []struct {
		key  string
		want int
	}{{"j", 0}, {"j", 1}, {"j", 2}, {"k", 1}} {
		b.key(press.key)
		if got := row(); got != press.want {
			t.Errorf("after %s row %d is current, want %d", press.key, got, press.want)
		}
	}
	b.key("?")
	b.await("document.querySelector('#keys').open")
	b.shot("keys")
	b.do(chromedp.KeyEvent("\x1b"))
	b.await("!document.querySelector('#keys').open")
	b.key("k")
	b.do(chromedp.KeyEvent("\r"))
	b.await("location.pathname === '/failed/campaign'")
}

func testLive(t *testing.T, b *tab, w *world) {
	t.Helper()
	b.logIn(w, auth.Operator)
	b.open("/audit")
	b.await("document.querySelector('#live').dataset.liveState === 'live'")
	act := func(reason string) {
		t.Helper()
		form := url.Values{"projection": {"scores"}, "campaign": {"cave-05"}, "reason": {reason}, "back": {"/audit"}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.base+"/act/requeueFailed",
			strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Authorization", "Bearer "+w.token[auth.Operator])
		if status, body := do(t, request); status != http.StatusSeeOther {
			t.Fatalf("the act answers %d: %s", status, body)
		}
	}
	act("seen at once")
	b.sees("seen at once")
	b.click("#live")
	b.await("document.querySelector('#live').getAttribute('aria-pressed') === 'true'")
	act("not seen while paused")
	b.do(chromedp.Evaluate[chromedp.Void]("document.querySelector('#list').dataset.kept = 'yes'"))
	b.click("#live")
	b.sees("not seen while paused")
	if eval[bool](b, "document.querySelector('#list').dataset.kept === 'yes'") {
		t.Error("the list was not read again when live updates were resumed")
	}
	b.open("/")
	b.click("#zone")
	b.await(`document.querySelector(".foot time .at").textContent.endsWith("−03:30")`)
	if !eval[bool](b,
		`document.querySelector(".foot time").dateTime.endsWith("Z") && document.querySelector(".foot time").title.endsWith("UTC")`) {
		t.Error("a local time has lost its UTC")
	}
	b.click("#zone")
	b.await(`document.querySelector(".foot time .at").textContent.endsWith("UTC") && document.querySelector(".foot time").title.endsWith("−03:30")`)
	b.await(`document.querySelector(".foot time .rel").textContent.match(/^[1-9][0-9]*s ago$/)`) // it updates itself
}

func testColours(t *testing.T, b *tab, w *world) {
	t.Helper()
	b.media("prefers-color-scheme=dark", "prefers-reduced-motion=reduce")
	b.logIn(w, auth.Viewer)
	ground := func() string { return eval[string](b, "getComputedStyle(document.body).backgroundColor") }
	dark := ground()
	b.shot("dark")
	b.await(`getComputedStyle(document.querySelector(".live-dot")).animationName === "none"`)
	b.media("prefers-color-scheme=light")
	light := ground()
	b.shot("light")
	if dark != "rgb(14, 17, 22)" || light != "rgb(244, 246, 248)" {
		t.Errorf("the ground is %s in the dark and %s in the light", dark, light)
	}
}

func testPhone(t *testing.T, b *tab, w *world) {
	t.Helper()
	b.do(chromedp.EmulateViewport(375, 720))
	b.media("prefers-color-scheme=dark")
	b.logIn(w, auth.Operator)
	b.shot("phone-overview")
	b.open("/failed")
	b.shot("phone-failed")
	b.click(".menu summary")
	b.await(`document.querySelector(".menu a").checkVisibility()`)
	b.open("/campaign?id=oak&seq=5")
	b.shot("phone-campaign")
}

func testViewer(t *testing.T, b *tab, w *world) {
	t.Helper()
	b.logIn(w, auth.Viewer)
	b.open("/failed/campaign?projection=scores&campaign=cave-00")
	b.sees("Payloads are hidden from your role.")
	if n := eval[int](b, `document.querySelectorAll('main form[method=post]').length`); n > 0 {
		t.Errorf("a viewer is shown %d acts", n)
	}
	b.open("/campaign?id=oak&seq=5")
	b.sees("Rows are hidden from your role")
	form := url.Values{
		"projection": {"scores"}, "campaign": {"cave-00"}, "seq": {"4"}, "confirm": {"4"},
		"reason": {"no"}, "position": {"1"}, "topic": {"campaign-events"}, "publisher": {"billing"}, "id": {"oak"},
		"group": {"default"},
	}
	for _, act := range postsOf() {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.base+act, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Authorization", "Bearer "+w.token[auth.Viewer])
		if status, _ := do(t, request); status != http.StatusForbidden && status != http.StatusSeeOther {
			t.Errorf("%s answers a viewer %d", act, status)
		}
	}
	records, err := publications.Log(t.Context(), w.pool, publications.LogFilter{Actor: "viewer"})
	if err != nil || len(records) > 0 {
		t.Errorf("a viewer has done %+v, %v", records, err)
	}
}
