package pages_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/store/failed"
)

func testNoScript(t *testing.T, b *tab, w *world) {
	t.Helper()
	b.noScript()
	b.open("/login")
	b.fill("#token", w.token[auth.Operator])
	b.press("button[type=submit]")
	b.sees("Problems")
	b.open("/failed/campaign?projection=scores&campaign=cave-07")
	b.fill(`form[action="/act/requeueFailed"] [name=reason]`, "without script")
	b.press(`form[action="/act/requeueFailed"] button`)
	b.sees("Requeued scores in cave-07")
	b.shot("no-script")
	b.open("/campaign?id=oak&seq=5")
	b.do(chromedp.Evaluate[chromedp.Void](`window.before = true; document.querySelector("#slide").value = "9"; document.querySelector(".slider button").click()`))
	b.loaded()
	b.sees("after event 9 of 15")
	b.press(`.slider a[rel=next]`)
	b.sees("after event 10 of 15")
	b.open("/workers?of=groups")
	b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("form[action='/act/repairGaps'] [name=reason]").closest("details").open = true`))
	b.fill(`form[action="/act/repairGaps"] [name=confirm]`, "something else")
	b.fill(`form[action="/act/repairGaps"] [name=reason]`, `it says "why" & more`)
	b.send(`form[action="/act/repairGaps"] [name=reason]`)
	b.sees("Not done.")
	b.await(`document.querySelector("form[action='/act/repairGaps'] [name=reason]").checkVisibility() && document.querySelector("form[action='/act/repairGaps'] [name=reason]").value === 'it says "why" & more'`)
	if n := eval[int](b,
		`[...document.querySelectorAll("input[name=reason]")].filter((box) => box.value !== "").length`); n != 1 {
		t.Errorf("the reason is in %d forms", n)
	}
	b.open("/workers?of=groups")
	b.await(`document.querySelector("form[action='/act/repairGaps'] [name=reason]").value === "" && !document.querySelector("form[action='/act/repairGaps'] [name=reason]").checkVisibility()`)
	b.open("/failed?of=all")
	b.do(chromedp.Evaluate[chromedp.Void](`window.before = true; document.querySelector("#status").value = "dead"; document.querySelector("#status").form.querySelector("button").click()`))
	b.loaded()
	b.await("location.search.includes('status=dead')")
	for _, selector := range []string{"#live", "#zone", "#help"} { // controls that need scripts are hidden
		b.await(fmt.Sprintf("!document.querySelector(%q).checkVisibility()", selector))
	}
	pair, err := failed.Show(t.Context(), w.pool, failed.Key{Projection: "scores", CampaignID: "cave-07"})
	if err != nil || pair.Status != failed.Failed {
		t.Errorf("the pair is %+v, %v", pair, err)
	}
}
