package journal_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestReservedNamesAreRefused tries each way to append or schedule with each reserved name.
func TestReservedNamesAreRefused(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	exec(t, pool, `INSERT INTO tidemark.readers (kind, topic, publisher, position, reacts_after) VALUES ('projection', 'p', '0', 0, 0)`)
	events := map[string]string{
		"events_erased": `{"type": "events_erased", "intent": "audit_only", "payload": {"erasure": 1, "seqs": [1]}}`,
		"$erased":       `{"type": "x", "metadata": {"$erased": 1}}`,
		"$archived":     `{"type": "x", "metadata": {"$archived": {"object": "o"}}}`,
	}
	calls := map[string]string{
		"append":             `SELECT FROM tidemark.append('c', ('[' || $1 || ']')::jsonb)`,
		"append of several":  `SELECT FROM tidemark.append('c', ('[{"type": "y"}, ' || $1 || ']')::jsonb)`,
		"append_all":         `SELECT FROM tidemark.append_all(('[{"campaign_id": "c", "events": [' || $1 || ']}]')::jsonb)`,
		"append_if":          `SELECT FROM tidemark.append_if(('[{"campaign_id": "c", "events": [' || $1 || ']}]')::jsonb, '{"failIfEventsMatch": {"items": [{"types": ["z"]}]}, "after": 0}')`,
		"append_at":          `SELECT FROM tidemark.append_at('c', now(), ('[' || $1 || ']')::jsonb)`,
		"schedule":           `SELECT FROM tidemark.schedule('c', now(), ('[' || $1 || ']')::jsonb)`,
		"react":              `SELECT tidemark.react('p', ARRAY[NULL]::text[], '{c}', ARRAY[now()], ARRAY['[' || $1 || ']'], ARRAY[NULL]::bigint[], ARRAY[NULL]::text[])`,
		"append with itself": `SELECT FROM tidemark.append('c', (SELECT jsonb_agg(e || jsonb_build_object('id', gen_random_uuid())) FROM (SELECT $1::jsonb AS e) e))`,
	}
	for name, e := range events {
		for call, sql := range calls {
			var refused *pgconn.PgError
			if _, err := pool.Exec(t.Context(), sql, e); !errors.As(err, &refused) || refused.Code != invalidEvent ||
				!strings.Contains(refused.Message, name) {
				t.Errorf("%s with %s: %v", call, name, err)
			}
		}
	}
	for name, e := range map[string]event.Event{
		"type":     {Type: "events_erased"},
		"metadata": {Type: "x", Metadata: []byte(`{"\u0024erased": 1}`)},
	} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.Append(t.Context(), tx, "c", journal.Any, e)
			return err
		})
		if refused, ok := errors.AsType[*journal.InvalidEventError](err); !ok || refused.Field != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	for what, test := range map[string]catalogue.EventType{
		"a type": {Name: "events_erased"}, "an alias": {Name: "x", Aliases: []string{"events_erased"}},
	} {
		if _, err := catalogue.New(test); err == nil || !strings.Contains(err.Error(), "the name events_erased is reserved") {
			t.Errorf("a catalogue takes it as %s: %v", what, err)
		}
	}
	if n := query[int64](t, pool, `SELECT (SELECT count(*) FROM tidemark.journal) + (SELECT count(*) FROM tidemark.scheduled)`); n != 0 {
		t.Errorf("%d rows were written", n)
	}
}
