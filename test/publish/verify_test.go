package publish_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/test/support/broker"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// settle waits until a pair has reached the journal's end and holds no campaign back.
func settle(t *testing.T, pool *pgxpool.Pool, key publications.Key) {
	t.Helper()
	tally.Eventually(t, fmt.Sprintf("%s has got to the journal's end", key), tally.Holds(pool, `SELECT position >= (SELECT
		max(j.position) FROM tidemark.journal j)
		AND NOT EXISTS (SELECT FROM tidemark.parked k WHERE k.topic = p.topic AND k.publisher = p.publisher)
		FROM tidemark.readers p WHERE topic = $1 AND publisher = $2`, key.Topic, key.Publisher))
}

// verify waits until a pair has settled, then compares the arrived events with the journal: the
// same events, and those of a campaign in order, apart from repeats.
func verify(t *testing.T, pool *pgxpool.Pool, b *broker.Server, key publications.Key) {
	t.Helper()
	settle(t, pool, key)
	compare(t, pool, b, key)
}

// compare is verify without the wait.
func compare(t *testing.T, pool *pgxpool.Pool, b *broker.Server, key publications.Key) {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT event_id, position FROM tidemark.journal WHERE $1 = 'everything'
		OR $1 LIKE 't%' AND $1 <> 'told' OR event_type = $1 ORDER BY position`, key.Topic)
	if err != nil {
		t.Fatal(err)
	}
	missing := map[uuid.UUID]int64{}
	var id uuid.UUID
	var position int64
	if _, err := pgx.ForEachRow(rows, []any{&id, &position}, func() error {
		missing[id] = position
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	total := len(missing)
	var wrong []string
	last, seen := map[string]int64{}, map[uuid.UUID]bool{}
	arrivals := b.Arrivals(key.Topic, key.Publisher)
	for _, a := range arrivals {
		if seen[a.ID] {
			continue
		}
		seen[a.ID] = true
		if _, committed := missing[a.ID]; !committed {
			wrong = append(wrong, fmt.Sprintf("event %d of campaign %s has arrived and is not in the journal", a.Seq,
				a.Campaign))
		}
		delete(missing, a.ID)
		if a.Seq <= last[a.Campaign] || a.Seq > last[a.Campaign]+1 && key.Topic != "told" {
			wrong = append(wrong, fmt.Sprintf("event %d of campaign %s came for the first time after event %d", a.Seq,
				a.Campaign, last[a.Campaign]))
		}
		last[a.Campaign] = a.Seq
	}
	for _, at := range missing {
		wrong = append(wrong, fmt.Sprintf("the event at position %d has not arrived", at))
	}
	if len(wrong) > 0 {
		t.Errorf("%s: %d of %d events have arrived, %d things are wrong, for instance:", key, total-len(missing), total,
			len(wrong))
	}
	for _, w := range wrong[:min(5, len(wrong))] {
		t.Error(w)
	}
	t.Logf("%s: %d events arrived, %d of them for the first time", key, len(arrivals), len(seen))
}

// nothingParked checks that no event of the pair was ever blamed: none was parked, and no attempt
// was counted.
func nothingParked(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	if n := tally.Value[int](t, pool, `SELECT count(*) FROM parked_ever`); n > 0 {
		t.Errorf("%d times an event was blamed", n)
	}
}

// watchParked records every row ever written to parked, for [nothingParked].
func watchParked(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	tally.Exec(t, pool, `
		CREATE TABLE parked_ever (campaign_id text, seq bigint, status text, attempt_count int);
		CREATE FUNCTION note_parked() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
		BEGIN
			INSERT INTO parked_ever VALUES (NEW.campaign_id, NEW.seq, NEW.status, NEW.attempt_count);
			RETURN NULL;
		END $$;
		CREATE TRIGGER note_parked AFTER INSERT OR UPDATE ON tidemark.parked FOR EACH ROW EXECUTE FUNCTION note_parked()`)
}

// watchOwners records every change of a pair's owner, and whether the old lease was still valid.
func watchOwners(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	tally.Exec(t, pool, `
		CREATE TABLE taken (topic text, publisher text, from_owner text, to_owner text, held boolean);
		CREATE FUNCTION note_owner() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
		BEGIN
			INSERT INTO taken VALUES (NEW.topic, NEW.publisher, OLD.owner, NEW.owner, OLD.expires_at > clock_timestamp());
			RETURN NULL;
		END $$;
		CREATE TRIGGER note_owner AFTER UPDATE ON tidemark.readers FOR EACH ROW
			WHEN (NEW.owner <> OLD.owner) EXECUTE FUNCTION note_owner()`)
}

// heldOnce checks that no pair was ever taken from an owner with a valid lease.
func heldOnce(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	if n := tally.Value[int](t, pool, `SELECT count(*) FROM taken WHERE held`); n > 0 {
		t.Errorf("%d times a pair was taken from a relay that still held it", n)
	}
}
