// Package unreadable writes events that tidemark.append would refuse, as a superuser or a damaged disk
// can. Only tests import it.
package unreadable

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// Unprintable is a payload that Postgres can store but not print. Each attempt takes seconds,
	// because it fills a gigabyte.
	Unprintable = "a payload that cannot be printed"
	// Damaged is a payload that Postgres refuses to print at once. It replaces Unprintable where
	// the duration does not matter.
	Damaged = "a damaged payload"
)

// damaged is {"by": 1, "n": []} with a list that is not marked as one.
const damaged = `decode('020000200100008002000000080000500a0000106e6279000000000000000000200000000080010000',
	'hex')::jsonb`

// Kinds returns the kinds of events: a type ("" takes the caller's), a payload and metadata, in
// SQL.
func Kinds() map[string][3]string {
	return map[string][3]string{
		"no type":             {"''", `'{}'`, `NULL`},
		"a scalar payload":    {"", `'7'`, `NULL`},
		"3 MB":                {"", `jsonb_build_object('by', 1, 'text', repeat('x', 3 << 20))`, `NULL`},
		"numbers that expand": {"", `('{"by": 1, "n": [1' || repeat(',1e131071', 250) || ']}')::jsonb`, `NULL`},
		Unprintable:           {"", `('{"by": 1, "n": [1' || repeat(',1e131071', 8500) || ']}')::jsonb`, `NULL`},
		Damaged:               {"", damaged, `NULL`},
		"a payload that is too deep": {
			"", `('{"by": 1, "n": ' || repeat('[', 5000) || repeat(']', 5000) || '}')::jsonb`,
			`NULL`,
		},
		"metadata that are a list": {"", `'{"by": 1}'`, `'[1]'`},
	}
}

// Write appends an event of a kind to a campaign, with a work item for each group.
func Write(t testing.TB, pool *pgxpool.Pool, campaign, eventType, kind string) {
	t.Helper()
	k := Kinds()[kind]
	if k[0] == "" {
		k[0] = "'" + eventType + "'"
	}
	insert := `WITH written AS (
			INSERT INTO tidemark.journal (campaign_id, seq, position, event_id, event_type, event_version, intent, payload,
				metadata, payload_bytes, occurred_at, recorded_at)
			SELECT $1, (SELECT coalesce(max(seq), 0) + 1 FROM tidemark.journal WHERE campaign_id = $1),
				nextval('tidemark.journal_position'), gen_random_uuid(), ` + k[0] + `, 1,
				'projection_and_replay', ` + k[1] + `, ` + k[2] + `, 100, now(), now()
			RETURNING seq
		)
		INSERT INTO tidemark.outbox (consumer_group, campaign_id, seq, enqueued_at, events)
		SELECT g.name, $1, w.seq, now(), 1 FROM tidemark.consumer_groups g CROSS JOIN written w`
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if kind != Damaged {
			_, err := tx.Exec(t.Context(), insert, campaign)
			return err
		}
		// A superuser's cast takes any bytes as JSON. It is dropped before another session can see
		// it.
		if _, err := tx.Exec(t.Context(), `CREATE CAST (bytea AS jsonb) WITHOUT FUNCTION`); err != nil {
			return err
		}
		if _, err := tx.Exec(t.Context(), insert, campaign); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), `DROP CAST (bytea AS jsonb)`)
		return err
	})
	if err != nil {
		t.Fatalf("write an event with %s: %v", kind, err)
	}
}
