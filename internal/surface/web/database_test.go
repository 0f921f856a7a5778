package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

type notes struct {
	Count int `json:"count"`
}

// database returns a database with rows of every kind. Projection notes of group default has
// applied campaigns a and b/1, except one event at which it is dead and which holds a secret. There
// is also a rebuild, pauses, a publication with a parked event, a worker, an operation, and logs.
func database(t *testing.T) (*pgxpool.Pool, admin.Config) {
	t.Helper()
	pool := pgtest.New(t)
	p, err := projector.New(projector.Config{
		Pool: pool,
		Projections: []projection.Projection{projection.Document[notes]{
			Name: "notes", Version: 1, Fold: func(n *notes, e event.Event) error {
				if e.Type == "bad" {
					return projection.Permanent(fmt.Errorf("cannot be read"))
				}
				n.Count++
				return nil
			},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, `SELECT tidemark.append('a',
		'[{"type": "noted", "payload": {"secret": "s3cret", "open": 1}}, {"type": "noted"}]');
		SELECT tidemark.append('b/1', '[{"type": "bad"}]')`)
	if _, err := p.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, `INSERT INTO tidemark.readers (topic, publisher, position) VALUES ('t', 's', 1);
		INSERT INTO tidemark.parked (topic, publisher, campaign_id, seq, holds, position, status, error_message,
			first_failed_at) VALUES ('t', 's', 'a', 1, true, 1, 'parked', 'no', now());
		INSERT INTO tidemark.workers (owner, consumer_group, host, pid, started_at, seen_at, campaigns_held, events_applied)
			VALUES ('h/1', 'default', 'h', 1, now(), now(), 0, 0);
		INSERT INTO tidemark.operator_log (actor, act, reason, detail) VALUES ('ada', 'publisher_paused', 'a test', '{"x": 1}');
		INSERT INTO tidemark.retention (policy, closed_for, event_types, every, rate) VALUES ('p', '1 day', '{closed}', '1 h', 9);
		INSERT INTO tidemark.restore_requests (campaign_id, asked_by, asked_at, attempt_at) VALUES ('a', 'shop', now(), now());
		INSERT INTO tidemark.erasures (request, actor, reason, changed) VALUES (sha256(''), 'ada', 'a test', '{"journal": 2}');
		INSERT INTO tidemark.operations (kind, request, actor) VALUES ('repair_gaps', '{"group": "default"}', 'ada');
		INSERT INTO tidemark.operation_items (operation_id, ord, campaign_id, subject, seq) VALUES (1, 1, 'a', 'notes', 1);
		INSERT INTO tidemark.pauses (scope, consumer_group, name, reason, actor)
			VALUES ('campaign', 'default', 'a', 'a test', 'ada');
		INSERT INTO tidemark.readers (topic, publisher, position, kind) VALUES ('days', '#0', 1, 'projection');
		SELECT tidemark.append_at('a', now() + interval '1 h', '[{"type": "noted", "payload": {"secret": "s3cret"}}]')`)
	return pool, admin.Config{Projector: p, Projections: []string{"notes"}}
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// path fills a route's pattern with names from database.
func path(pattern string) string {
	pair := "a"
	if strings.Contains(pattern, "/failed/") {
		pair = "b%2F1"
	}
	return strings.NewReplacer("{projection}", "notes", "{campaign}", pair, "{seq}", "1", "{id}", "1", "{topic}", "t",
		"{publisher}", "s", "{group}", "default", "{owner}", "h%2F1", "{name}", "nobody").Replace(pattern)
}

// withRows returns the calls that are refused to viewers because of the rows they show.
func withRows() []string {
	return []string{"getAsOf", "getDiff", "getWhy", "verifyCampaign", "exportEvents"}
}

// query returns the parameters that a call needs.
func query(id string) string {
	return map[string]string{
		"getAsOf": "?projection=notes&seq=2", "getDiff": "?projection=notes&from=1&to=2",
		"getWhy": "?projection=notes&key=", "verifyCampaign": "?projection=notes", "listGaps": "?group=default",
		"listLeases": "?group=default",
	}[id]
}
