package inbox_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/inbox"
	"github.com/tidemark-go/tidemark/pkg/inbox/redisinbox"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/webhook"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/redistest"
)

// delivers hands an event to an inbox and reports whether the inbox handled it.
type delivers func(t *testing.T, campaign string, id uuid.UUID) (handled bool)

// inboxes returns every way to handle an event once.
func inboxes(t *testing.T, pool *pgxpool.Pool) map[string]delivers {
	t.Helper()
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { _ = db.Close() })
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t)})
	t.Cleanup(func() { _ = client.Close() })
	inRedis, err := redisinbox.New(redisinbox.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	secret := webhook.NewSecret()
	return map[string]delivers{
		"CheckAndMark": func(t *testing.T, campaign string, id uuid.UUID) (first bool) {
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
				first, err = inbox.CheckAndMark(t.Context(), tx, "pgx", campaign, id)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return first
		},
		"database/sql": func(t *testing.T, campaign string, id uuid.UUID) (first bool) {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if first, err = inbox.CheckAndMark(t.Context(), journal.SQL(tx), "sql", campaign, id); err == nil {
				err = tx.Commit()
			}
			if err != nil {
				t.Fatal(err)
			}
			return first
		},
		"Webhook": func(t *testing.T, campaign string, id uuid.UUID) (handled bool) {
			h, err := inbox.Webhook(inbox.WebhookConfig{DB: pool, Consumer: "webhook", Secrets: []webhook.Secret{secret}},
				func(_ context.Context, _ pgx.Tx, d inbox.Delivery) error {
					if d.CampaignID != campaign || d.EventID != id {
						t.Errorf("event %s of %q is handed over as %s of %q", id, campaign, d.EventID, d.CampaignID)
					}
					handled = true
					return nil
				})
			if err != nil {
				t.Fatal(err)
			}
			e := event.Event{ID: id, CampaignID: campaign}
			if got := status(h, request(secret, e.Identity(), `{}`)); got != http.StatusNoContent {
				t.Errorf("event %s of %q: status %d", id, campaign, got)
			}
			return handled
		},
		"redisinbox.CheckAndMark": func(t *testing.T, campaign string, id uuid.UUID) bool {
			first, err := inRedis.CheckAndMark(t.Context(), "mark", campaign, id)
			if err != nil {
				t.Fatal(err)
			}
			return first
		},
		"redisinbox.Do": func(t *testing.T, campaign string, id uuid.UUID) bool {
			handled, err := inRedis.Do(t.Context(), "do", campaign, id, func(context.Context) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			return handled
		},
	}
}

func TestOneIDInSeveralCampaignsIsAsManyEvents(t *testing.T) {
	t.Parallel()
	id, campaigns := uuid.New(), []string{"a", "a/b", "a:b", "a%2Fb", "a.b c", "zażółć", "A"}
	for name, deliver := range inboxes(t, pgtest.New(t)) {
		t.Run(name, func(t *testing.T) {
			for _, first := range []bool{true, false} {
				for _, campaign := range campaigns {
					if got := deliver(t, campaign, id); got != first {
						t.Errorf("campaign %q, first %t: handled is %t", campaign, first, got)
					}
				}
			}
		})
	}
}

func TestConsumersWhoseNamesLookLikeEventsHaveMarksOfTheirOwn(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t)})
	t.Cleanup(func() { _ = client.Close() })
	in, err := redisinbox.New(redisinbox.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	one, other := uuid.New(), uuid.New()
	for _, e := range []struct {
		consumer, campaign string
		id                 uuid.UUID
	}{
		{"a", "x:" + other.String() + "/y", one},
		{"a:" + one.String() + "/x", "y", other},
		{"a%3A" + one.String() + "/x", "y", other},
	} {
		if first, err := in.CheckAndMark(t.Context(), e.consumer, e.campaign, e.id); err != nil || !first {
			t.Errorf("%v: first is %t, %v", e, first, err)
		}
	}
}
