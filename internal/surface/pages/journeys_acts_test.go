package pages_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/internal/store/publications"
)

// confirm types the word that a form asks for, after a wrong one. The button must stay disabled
// until the right word.
func (b *tab) confirm(field, words string) {
	b.Helper()
	b.fill(field, "no")
	if !eval[bool](b, fmt.Sprintf("document.querySelector(%q).form.querySelector('button[type=submit]').disabled",
		field)) {
		b.Errorf("%s: the button may be pressed though something else was typed", field)
	}
	b.replace(field, words)
}

// replace replaces the text of a field.
func (b *tab) replace(field, text string) {
	b.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelector(%[1]q).closest('details')?.setAttribute('open', ''); document.querySelector(%[1]q).select()", field)))
	b.fill(field, text)
}

// send presses the submit button of the field's form.
func (b *tab) send(field string) {
	b.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("window.before = true; "+
		"document.querySelector(%q).form.querySelector('button[type=submit]').click()", field)))
	b.loaded()
}

// follow opens the operation that an act has started and waits until it reaches the state.
func (b *tab) follow(state string) {
	b.Helper()
	b.press(`.flash a[href^="/operation"]`)
	b.await(fmt.Sprintf(`document.querySelector("#progress .tag")?.innerText === %q`, state))
}

// resendParked retries all events that were refused with the same message.
func resendParked(t *testing.T, b *tab, w *world) {
	t.Helper()
	b.open("/parked?publisher=billing&message=422")
	b.await(`document.querySelectorAll("#list tbody tr").length === 10`)
	b.press(`.head a[href^="/act/retryManyParked"]`)
	b.await("location.search.includes('message=')")
	b.sees("retry 10 events")
	const form = `form[method=post][action="/act/retryManyParked"] `
	b.confirm(form+"[name=confirm]", "retry parked 10")
	b.fill(form+"[name=reason]", "they take it now")
	b.shot("bulk-parked")
	b.send(form + "[name=confirm]")
	b.sees("is to retry 10 events")
	if !eval[bool](b, `location.search.includes("message=") && location.search.includes("publisher=billing")`) {
		t.Error("the filter has not survived the act")
	}
	b.follow("queued again")
	b.await(`document.querySelector("#progress").innerText.includes("10 of 10")`)
	b.await(`document.querySelectorAll("#items .tag.info").length === 10`)
	n, err := publications.CountParked(t.Context(), w.pool, publications.ParkedFilter{
		Publisher: "billing",
		Status:    "retrying",
	})
	if err != nil || n != 10 {
		t.Errorf("%d events are on their way again, %v; want 10", n, err)
	}
	b.open("/event?campaign=cave-00&seq=4")
	b.sees("422")
	b.sees(`"spell": "hex"`)
	b.sees("retrying")
	b.shot("parked")
	b.open("/audit?by=admin")
	b.sees("they take it now")
}

func testGaps(t *testing.T, b *tab, w *world) {
	t.Helper()
	w.append(t, "gapped", heroEvents(3)...)
	if _, err := w.pool.Exec(t.Context(), `DELETE FROM tidemark.outbox WHERE campaign_id = 'gapped'`); err != nil {
		t.Fatal(err)
	}
	b.logIn(w, auth.Operator)
	b.open("/workers?of=groups")
	b.confirm(`form[action="/act/repairGaps"] [name=confirm]`, "default")
	b.fill(`form[action="/act/repairGaps"] [name=reason]`, "a restore lost the queue")
	b.shot("gaps")
	b.send(`form[action="/act/repairGaps"] [name=confirm]`)
	b.sees("a worker looks for gaps of group default")
	b.follow("done")
	b.sees("a restore lost the queue")
	b.await(`document.querySelector("#progress dd").innerText === "1"`)
	n := 0
	if err := w.pool.QueryRow(t.Context(), `SELECT count(*) FROM tidemark.outbox
		WHERE campaign_id = 'gapped'`).Scan(&n); err != nil || n == 0 {
		t.Errorf("%d work items of the campaign that had a gap, %v", n, err)
	}
	gaps, _, err := outbox.Gaps(t.Context(), w.pool, "default", "", 1000)
	if err != nil || len(gaps) > 0 {
		t.Errorf("gaps after the repair: %v, %v", gaps, err)
	}
}

func testRepublish(t *testing.T, b *tab, w *world) {
	t.Helper()
	b.logIn(w, auth.Operator)
	ask := func(to string) {
		t.Helper()
		b.open("/publishers/pair?topic=campaign-events&publisher=" + to)
		b.fill(`form[action="/act/republish"] [name=campaign]`, "oak")
		b.replace(`form[action="/act/republish"] [name=from]`, "2")
		b.fill(`form[action="/act/republish"] [name=until]`, "5")
		b.confirm(`form[action="/act/republish"] [name=confirm]`, to)
		b.fill(`form[action="/act/republish"] [name=reason]`, "they lost them")
		b.shot("republish-" + to)
		b.send(`form[action="/act/republish"] [name=confirm]`)
		b.sees("sends the events of oak again")
	}
	ask("audit-trail")
	b.follow("done")
	b.await(`document.querySelector("#progress dd").innerText === "4"`)
	b.sees("they lost them")
	ask("billing") // no worker has this publisher
	b.follow("running")
	b.fill(`form[action="/act/abortOperation"] [name=reason]`, "it is not needed")
	b.shot("abort")
	b.send(`form[action="/act/abortOperation"] [name=reason]`)
	b.sees("were done, and stay so")
	b.await(`document.querySelector("#progress .tag").innerText === "aborted"`)
	b.open("/operations")
	b.await(`[...document.querySelectorAll("#list tbody tr")].some((r) => r.innerText.includes("aborted") && r.innerText.includes("they lost them"))`) // the history
}

func testCampaignActs(t *testing.T, b *tab, w *world) {
	t.Helper()
	b.logIn(w, auth.Operator)
	b.open("/campaign?id=cave-08")
	b.fill(`form[action="/act/verifyProjection"] [name=reason]`, "a doubt")
	b.send(`form[action="/act/verifyProjection"] [name=reason]`)
	b.sees("a worker verifies")
	b.follow("done")
	b.open("/campaign?id=cave-08")
	b.fill(`form[action="/act/pauseCampaign"] [name=reason]`, "hands off")
	b.send(`form[action="/act/pauseCampaign"] [name=reason]`)
	b.sees("for 1h")
	b.sees("hands off")
	pauses, err := pause.List(t.Context(), w.pool, "", nil, 0)
	if err != nil || !slices.ContainsFunc(pauses, func(p pause.Pause) bool {
		return p.CampaignID == "cave-08" && !p.ExpiresAt.IsZero() && p.By == "operator"
	}) {
		t.Errorf("paused is %+v, %v; the campaign should be, by operator, until a time", pauses, err)
	}
	b.shot("campaign-paused")
	b.fill(`form[action="/act/resumeCampaign"] [name=reason]`, "it is over")
	b.send(`form[action="/act/resumeCampaign"] [name=reason]`)
	b.sees("Resumed")
	b.fill(`form[action="/act/replayCampaign"] [name=projection]`, "heroes")
	b.fill(`form[action="/act/replayCampaign"] [name=reason]`, "once more")
	b.send(`form[action="/act/replayCampaign"] [name=reason]`)
	b.sees("Replay begun")
	b.await(`[...document.querySelectorAll("#standing tbody tr")].some((r) => r.innerText.includes("heroes") && r.innerText.includes("catching up"))`)
	if _, err := failed.Show(t.Context(), w.pool,
		failed.Key{Projection: "heroes", CampaignID: "cave-08"}); err != nil {
		t.Errorf("the pair that is replayed: %v", err)
	}
}

func testDrain(t *testing.T, b *tab, w *world) {
	t.Helper()
	b.logIn(w, auth.Admin)
	b.open("/workers?of=leases&group=default")
	b.await(`[...document.querySelectorAll("#list tbody tr")].some((r) => r.innerText.includes("oak") && /[1-9]/.test(r.cells[4].innerText))`) // a lease with its generation
	b.open("/workers")
	b.confirm(`form:has([value="worker-a-1"])[action="/act/drainWorker"] [name=confirm]`, "worker-a-1")
	b.fill(`form:has([value="worker-a-1"])[action="/act/drainWorker"] [name=reason]`, "a new kernel")
	b.shot("drain")
	b.send(`form:has([value="worker-a-1"])[action="/act/drainWorker"] [name=confirm]`)
	b.sees("Worker worker-a-1 finishes what it holds and claims no more.")
	drained := func() string {
		workers, err := lease.Workers(t.Context(), w.pool)
		if err != nil {
			t.Fatal(err)
		}
		for _, worker := range workers {
			if worker.Owner == "worker-a-1" {
				return worker.DrainedBy
			}
		}
		return "no such worker"
	}
	if by := drained(); by != "admin" {
		t.Errorf("the worker is drained by %q, want admin", by)
	}
	b.await(`[...document.querySelectorAll("#list tbody tr")].some((r) => r.innerText.includes("worker-a-1") && r.innerText.includes("by admin"))`)
	b.fill(`form[action="/act/undrainWorker"] [name=reason]`, "it is back")
	b.send(`form[action="/act/undrainWorker"] [name=reason]`)
	b.sees("claims campaigns again")
	if by := drained(); by != "" {
		t.Errorf("the worker is drained by %q, want nobody", by)
	}
}

func testRebuild(t *testing.T, b *tab, w *world) {
	t.Helper()
	b.logIn(w, auth.Admin)
	b.open("/projections")
	b.fill(`form:has([value="heroes"])[action="/act/startRebuild"] [name=reason]`, "a bug in the fold")
	b.send(`form:has([value="heroes"])[action="/act/startRebuild"] [name=reason]`)
	b.sees("rebuild it now")
	b.open("/projections?of=rebuilds")
	b.await(`document.querySelector("#list .tag")?.innerText === "requested"`)
	b.fill(`form[action="/act/pauseRebuild"] [name=reason]`, "the night")
	b.send(`form[action="/act/pauseRebuild"] [name=reason]`)
	b.sees("The rebuild of heroes waits for 1h")
	b.await(`[...document.querySelectorAll("#list .tag")].some((e) => e.innerText === "paused")`)
	b.shot("rebuild")
	b.fill(`form[action="/act/resumeRebuild"] [name=reason]`, "the morning")
	b.send(`form[action="/act/resumeRebuild"] [name=reason]`)
	b.sees("The rebuild of heroes goes on")
	b.confirm(`form[action="/act/abortRebuild"] [name=confirm]`, "heroes")
	b.fill(`form[action="/act/abortRebuild"] [name=reason]`, "not needed")
	b.send(`form[action="/act/abortRebuild"] [name=confirm]`)
	b.sees("and removed what it had built")
	rebuilds, err := rebuild.Rebuilds(t.Context(), w.pool, "")
	if err != nil || len(rebuilds) > 0 {
		t.Errorf("rebuilds after the abort: %+v, %v", rebuilds, err)
	}
}

func testResolve(t *testing.T, b *tab, w *world) {
	t.Helper()
	b.logIn(w, auth.Admin)
	b.open("/failed/campaign?projection=scores&campaign=cave-06")
	b.fill(`form[action="/act/resolveFailed"] [name=seq]`, "10")
	b.fill(`form[action="/act/resolveFailed"] [name=reason]`, "it was sent by mistake")
	b.send(`form[action="/act/resolveFailed"] [name=seq]`)
	b.sees("Resolved: scores goes on in cave-06 without event 10.")
	b.await(`location.pathname === "/campaign"`) // the page it came from may no longer exist
	pair, err := failed.Show(t.Context(), w.pool, failed.Key{Projection: "scores", CampaignID: "cave-06"})
	if !errors.Is(err, failed.ErrNotFound) && (err != nil || pair.NextSeq != 11) {
		t.Errorf("the pair that was resolved is %+v, %v", pair, err)
	}
	b.open("/audit?campaign=cave-06")
	b.sees("it was sent by mistake")
	b.shot("audit-campaign")
	b.open("/audit?of=failures&campaign=cave-06")
	b.sees("resolved")
	b.open("/campaign?id=cave-06")
	b.sees("Resolved events")
	b.sees("it was sent by mistake")
	b.fill(`form[action="/act/unresolveFailed"] [name=reason]`, "it was not")
	b.send(`form[action="/act/unresolveFailed"] [name=reason]`)
	b.sees("Undone: scores applies cave-06 again, with event 10.")
	if left, err := failed.CountResolutions(t.Context(), w.pool, "scores"); err != nil || left != 0 {
		t.Errorf("%d resolutions are left, %v", left, err)
	}
}
