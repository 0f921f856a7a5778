package pages_test

import (
	"testing"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

func testBulk(t *testing.T, b *tab, w *world) {
	t.Helper()
	b.logIn(w, auth.Admin)
	b.open("/failed?of=all&projection=scores&type=entombed")
	b.sees("the door is shut")
	b.press(`.head a[href^="/act/requeueManyFailed"]`)
	b.await("location.search.includes('type=entombed')")
	b.sees("6 failed campaigns")
	const form = `form[method=post][action="/act/requeueManyFailed"] `
	b.confirm(form+"[name=confirm]", "requeue 6")
	b.fill(form+"[name=reason]", "the door is open again")
	b.shot("bulk")
	b.send(form + "[name=confirm]")
	b.sees("is to requeue 6 failed campaigns")
	if !eval[bool](b, `location.search.includes("type=entombed")`) {
		t.Error("the filter has not survived the act")
	}
	b.press(`.flash a[href^="/operation"]`)
	b.await(`document.querySelector("#progress")?.innerText.includes("6 of 6")`)
	b.await(`document.querySelector("#progress .tag")?.innerText === "queued again"`)
	b.await(`document.querySelectorAll("#items .tag.info").length === 6`)
	b.await(`document.querySelector("#since").innerText === "0 failed again, 6 waiting, 0 got past it"`)
	if n := eval[int](b, `document.querySelectorAll("main .tag.ok").length`); n > 0 {
		t.Errorf("%d things are green of which it is not known yet what becomes", n)
	}
	b.shot("operation")
	n, err := failed.Count(t.Context(), w.pool, failed.Filter{
		EventType: "entombed",
		Status:    []failed.Status{failed.Failed},
	})
	if err != nil || n != 6 {
		t.Errorf("%d pairs wait for a worker after the act, %v; want 6", n, err)
	}
	all, err := projector.New(projector.Config{Pool: w.pool, Projections: worldCode()})
	if err == nil {
		_, err = all.Drain(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	b.await(`document.querySelector("#progress .tag.bad")?.innerText === "failed again"`)
	b.press("#since a")
	b.await("location.pathname === '/failed' && location.search.includes('type=entombed')")
	b.open("/operations")
	b.await(`document.querySelector("#list .tag").innerText === "failed again"`)
}
