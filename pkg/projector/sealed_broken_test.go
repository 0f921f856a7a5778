package projector_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/bulk"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// processOfThanks reacts to each event with what it says, which it has to open.
func processOfThanks() projection.Projection {
	return projection.Process[int]{
		Name: "thanks", Version: 1, Types: []string{"mailed"},
		Key:  func(e event.Event) (string, error) { return e.CampaignID, nil },
		Fold: func(*int, event.Event) error { return nil },
		React: []projection.Reaction[int]{
			projection.React("mailed", func(_ *int, e event.Event, m mailed) ([]projection.Do, error) {
				payload, _ := json.Marshal(m)
				return []projection.Do{{Campaign: e.CampaignID, Events: []event.Event{{Type: "greeted", Payload: payload}}}}, nil
			}),
		},
	}
}

// forgotten deletes a key that does not open, and has everything that failed tried again.
func forgotten(t *testing.T, pool *pgxpool.Pool, id string, workers ...*projector.Projector) {
	t.Helper()
	if !query[bool](t, pool, `SELECT tidemark.forget_key('`+id+`', 'ada', 'it does not open')`) {
		t.Error("there was no key")
	}
	requeue(t, pool)
	for _, p := range workers {
		drain(t, p)
	}
	assertNothingFailed(t, pool)
}

// requeue has all that is dead tried again, once.
func requeue(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := bulk.Requeue(t.Context(), tx, failed.Filter{Group: "default"}, ada)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestAKeyThatDoesNotOpenMeets has an event that names such a key fail alone, and be applied with an absent
// field once the key is deleted.
func TestAKeyThatDoesNotOpenMeets(t *testing.T) {
	t.Parallel()
	const (
		dead = `SELECT string_agg(concat_ws(' ', projection, campaign_id, status, error_code), ', ' ORDER BY projection)
			FROM tidemark.failed WHERE error_message LIKE '%key 01a21831-0aaf-7001-9512-0e2cf06179e0 does not open%'`
		reactions = `SELECT string_agg(campaign_id, ' ' ORDER BY id) FROM tidemark.scheduled`
		rows      = `SELECT string_agg(campaign_id || ':' || mail, ' ' ORDER BY campaign_id, seq) FROM tidemark_views.mail_rows`
	)
	for name, meets := range map[string]func(t *testing.T, pool *pgxpool.Pool, types *catalogue.Catalogue, id string){
		"a rebuild": func(t *testing.T, pool *pgxpool.Pool, types *catalogue.Catalogue, id string) {
			worker := func(version int) *projector.Projector {
				return workerOf(t, pool, func(c *projector.Config) { c.Catalogue = types }, mails(t, version)[1:3]...)
			}
			one, two := worker(1), worker(2)
			drain(t, one)
			drain(t, two)
			expectText(t, pool, "dead", "mail_lists bad dead key, mail_lists~next bad dead key, "+
				"mail_rows bad dead key, mail_rows~next bad dead key", dead)
			expectText(t, pool, "new rows", "shop0:planted-2 shop1:planted-4",
				`SELECT string_agg(campaign_id || ':' || mail, ' ' ORDER BY campaign_id, seq)
					FROM tidemark_next_mail_rows.mail_rows`)
			forgotten(t, pool, id, one, two)
			within(t, "version 2 is live", func() bool {
				exec(t, pool, `UPDATE tidemark.rebuilds SET refused_at = NULL`)
				drain(t, two)
				return query[int](t, pool, `SELECT count(*) FROM tidemark.projections
					WHERE version = 2 AND name NOT LIKE '%~%'`) == 2
			})
			expectText(t, pool, "rows", "bad: shop0:planted-2 shop1:planted-4", rows)
		},
		"a replay of the dead event": func(t *testing.T, pool *pgxpool.Pool, types *catalogue.Catalogue, id string) {
			p := workerOf(t, pool, func(c *projector.Config) { c.Catalogue = types }, mails(t, 1)[1])
			drain(t, p)
			replay := func() {
				t.Helper()
				if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					_, err := failed.Replay(t.Context(), tx, failed.ReplayRequest{
						Group: "default", Projection: "mail_rows", Campaigns: []string{"bad", "shop0"},
					}, ada)
					return err
				}); err != nil {
					t.Fatal(err)
				}
				drain(t, p)
			}
			replay()
			requeue(t, pool)
			drain(t, p)
			expectText(t, pool, "dead", "mail_rows bad dead key", dead)
			expectText(t, pool, "rows", "shop0:planted-2 shop1:planted-4", rows)
			forgotten(t, pool, id, p)
			replay()
			expectText(t, pool, "rows", "bad: shop0:planted-2 shop1:planted-4", rows)
		},
		"a process": func(t *testing.T, pool *pgxpool.Pool, types *catalogue.Catalogue, id string) {
			p := workerOf(t, pool, func(c *projector.Config) { c.Catalogue = types },
				processOfThanks())
			drain(t, p)
			mail(t, pool, types, "shop0", 6)
			mail(t, pool, types, "bad", 8)
			drain(t, p)
			expectText(t, pool, "dead", "thanks bad dead key", dead)
			expectText(t, pool, "reactions", "shop1 shop0", reactions)
			forgotten(t, pool, id, p)
			expectText(t, pool, "reactions", "shop1 shop0 bad bad", reactions)
		},
		"a projection whose key is sealed": func(t *testing.T, pool *pgxpool.Pool, types *catalogue.Catalogue, id string) {
			p := workerOf(t, pool, func(c *projector.Config) { c.Catalogue = types }, mails(t, 1)[1], mails(t, 1)[3])
			drain(t, p)
			mail(t, pool, types, "shop0", 6)
			drain(t, p)
			expectText(t, pool, "dead", "mail_keys - dead key, mail_rows bad dead key", dead)
			forgotten(t, pool, id, p)
			expectText(t, pool, "keys", `["planted-2"] ["planted-4"] ["planted-6"]`, // it has no key

				`SELECT string_agg(doc::text, ' ' ORDER BY doc::text) FROM tidemark_views.mail_keys`)
		},
		"an inline apply": func(t *testing.T, pool *pgxpool.Pool, types *catalogue.Catalogue, id string) {
			p := workerOf(t, pool, func(c *projector.Config) { c.Catalogue = types }, mails(t, 1)[1:3]...)
			drain(t, p)
			inline := func(campaign string, e event.Event) error {
				return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					places, err := journal.Journal{Catalogue: types}.Append(t.Context(), tx, campaign, journal.Any, e)
					if err != nil {
						return err
					}
					return p.ApplyInline(t.Context(), tx, places...)
				})
			}
			_, broken := broken(t, pool, "a")
			if err := inline("bad", broken); err != nil && !errors.Is(err, catalogue.ErrBrokenKey) {
				t.Errorf("inline: %v", err)
			}
			if err := inline("new", broken); !errors.Is(err, catalogue.ErrBrokenKey) {
				t.Errorf("inline, in a campaign that has not failed: %v", err)
			}
			if err := inline("shop0", event.Event{
				Type: "mailed", Version: 2, Payload: []byte(`{"customer": "c", "mail": "planted-9"}`),
			}); err != nil {
				t.Errorf("inline, of another key: %v", err)
			}
			expectText(t, pool, "rows", "shop0:planted-2 shop0:planted-9 shop1:planted-4", rows)
			forgotten(t, pool, id, p)
			if err := inline("new", broken); err != nil {
				t.Errorf("inline, without the key: %v", err)
			}
			expectText(t, pool, "rows of campaign new", "1", `SELECT count(*)::text FROM tidemark_views.mail_rows
				WHERE campaign_id = 'new' AND mail = ''`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			types := mailCatalogue(t, "a")
			id, e := broken(t, pool, "a")
			mail(t, pool, types, "shop0", 2)
			if name == "a process" {
				// A process reacts to events since its registration.
				drain(t, workerOf(t, pool, func(c *projector.Config) { c.Catalogue = types }, processOfThanks()))
			}
			appendEvents(t, pool, "bad", e)
			mail(t, pool, types, "shop1", 4)
			meets(t, pool, types, id)
		})
	}
}
