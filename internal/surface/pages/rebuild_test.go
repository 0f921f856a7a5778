package pages_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

type tally struct {
	Sum int `json:"sum"`
}

// tallies keeps a document for each campaign. Version 2 fails on cursed events.
func tallies(version int) projection.Projection {
	return projection.Document[tally]{
		Name: "tallies", Version: version, Types: []string{"hero_wounded", "cursed"},
		OnFailure: projection.Policy{Action: projection.ActionDead},
		Fold: func(d *tally, e event.Event) error {
			if version > 1 && e.Type == "cursed" {
				return errors.New("tallies: cursed")
			}
			d.Sum += version
			return nil
		},
	}
}

func (w *world) exists(t *testing.T, sql string) (so bool) {
	t.Helper()
	if err := w.pool.QueryRow(t.Context(), "SELECT EXISTS ("+sql+")").Scan(&so); err != nil {
		t.Fatal(err)
	}
	return so
}

func TestARebuildIsFollowedSwappedAndRolledBackOnItsPage(t *testing.T) {
	t.Parallel()
	w := &world{pool: pgtest.New(t), token: map[auth.Role]string{}}
	drain := func(version int) {
		t.Helper()
		p, err := projector.New(projector.Config{Pool: w.pool, Projections: []projection.Projection{tallies(version)}})
		if err == nil {
			_, err = p.Drain(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	drain(1)
	w.append(t, "oak", heroEvents(3)...)
	w.append(t, "cave", event.Event{Type: "cursed", AggregateID: "imp", Payload: json.RawMessage(`{}`)})
	drain(1)
	w.serve(t, []projection.Projection{tallies(1), tallies(2)})
	act := func(path string, form url.Values) {
		t.Helper()
		form.Set("projection", "tallies")
		form.Set("reason", "the test")
		form.Set("key", uuid.NewString())
		if status, _ := w.post(t, auth.Admin, path, form); status != http.StatusSeeOther {
			t.Fatalf("%s answers %d", path, status)
		}
	}
	says := func(when, path string, wants ...string) {
		t.Helper()
		status, body := w.get(t, auth.Admin, path)
		for _, want := range wants {
			if status != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s the page answers %d and does not say %q", when, status, want)
			}
		}
	}
	drain(2)
	says("while one campaign has failed", "/projections?of=rebuilds", "Rebuilds under way", `data-head="From" class="num">1<`,
		`data-head="To" class="num">2<`, `data-head="Done" class="num">50%<`, `<span class="tag bad"><bdi class="break">1</bdi>`,
		`data-head="Not swapped"`, `action="/act/swapRebuild"`)
	act("/act/swapRebuild", url.Values{"allow_failed": {"1"}})
	drain(2)
	says("after the swap", "/projections", "Roll back to version 1")
	act("/act/rollbackProjection", url.Values{"confirm": {"something else"}})
	says("after a rollback that was not confirmed", "/projections", "Roll back to version 1")
	act("/act/rollbackProjection", url.Values{"confirm": {"tallies"}, "allow_behind": {"0"}})
	deadline, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for !w.exists(t, `SELECT FROM tidemark.operations WHERE kind = 'rollback' AND state <> 'running'`) {
		select {
		case <-deadline.Done():
			t.Fatal("the worker has not rolled back")
		case <-time.After(10 * time.Millisecond):
		}
	}
	says("after the rollback", "/projections", "Roll back to version 2")
}
