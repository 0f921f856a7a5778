package tally

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// added is the only type of event.
const added = "added"

// amount is the payload.
type amount struct {
	N int64 `json:"n"`
}

// Event returns an event that adds n.
func Event(n int64) event.Event {
	payload, _ := json.Marshal(amount{N: n}) // a number always encodes
	return event.Event{Type: added, Payload: payload}
}

// Amount returns what an event adds.
func Amount(e event.Event) int64 {
	a, _ := event.Decode[amount](e) // see Event
	return a.N
}

// Tally is the document of a campaign. Its digest depends on every amount and on their order.
type Tally struct {
	Count  int64 `json:"count"`
	Last   int64 `json:"last"`
	Digest int64 `json:"digest"`
}

func (t *Tally) fold(e event.Event) error {
	a, err := event.Decode[amount](e)
	t.Count++
	t.Last = e.Seq
	t.Digest = t.Digest*31 + a.N
	return err
}

// Tallies returns the projection "<prefix>tallies": a [Tally] for each campaign.
func Tallies(prefix string) projection.Projection {
	return projection.Document[Tally]{
		Name: prefix + "tallies", Version: 1, Types: []string{added},
		Fold: func(t *Tally, e event.Event) error { return t.fold(e) },
	}
}

// Totals returns the projection "totals" across campaigns, in two partitions: a [Tally] for each
// remainder of amounts divided by 7. Last is a seq of any campaign.
func Totals() projection.Projection {
	return projection.Document[Tally]{
		Name: "totals", Version: 1, Types: []string{added}, Scope: projection.ScopeJournal, Partitions: 2,
		Key: func(e event.Event) (string, error) {
			a, err := event.Decode[amount](e)
			return fmt.Sprint(a.N % 7), err
		},
		Fold: func(t *Tally, e event.Event) error { return t.fold(e) },
	}
}

// VerifyTotals compares [Totals] with a fold of the journal in the order of position.
func VerifyTotals(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	folded := map[string]Tally{}
	for e, err := range journal.ReadAll(t.Context(), pool, 0) {
		if err != nil {
			t.Fatal(err)
		}
		a, err := event.Decode[amount](e)
		if err != nil {
			t.Fatal(err)
		}
		total := folded[fmt.Sprint(a.N%7)]
		if err := total.fold(e); err != nil {
			t.Fatal(err)
		}
		folded[fmt.Sprint(a.N%7)] = total
	}
	if n := Value[int](t, pool, `SELECT count(*) FROM tidemark_views.totals`); n != len(folded) {
		t.Errorf("%d totals, want %d", n, len(folded))
	}
	for key, want := range folded {
		if got := Value[Tally](t, pool, `SELECT doc FROM tidemark_views.totals WHERE key = $1`, key); got != want {
			t.Errorf("total %s: %+v, want %+v", key, got, want)
		}
	}
	if n := Value[int](t, pool, `SELECT count(*) FROM tidemark.readers r CROSS JOIN LATERAL (SELECT count(*) AS n,
			coalesce(bit_xor(uuid_hash_extended(event_id, 0)), 0) AS hash FROM tidemark.journal WHERE position <= r.position) j
		WHERE r.kind = 'projection' AND (r.applied <> j.n OR r.applied_hash <> j.hash)`); n > 0 {
		t.Errorf("%d places do not prove what was applied", n)
	}
}

// Hook is called by [Entries] before it writes the effect of an event.
type Hook func(context.Context, *projection.Group, event.Event) error

// Entries returns the projection "<prefix>entries": a row for each time an event is applied. Its
// table has no unique key, so an event that is applied twice has two rows. Rows are numbered, so
// events out of order show. before may be nil.
func Entries(prefix string, before Hook) projection.Projection {
	table := pgx.Identifier{prefix + "entries"}.Sanitize()
	h := &projection.Handlers{Name: prefix + "entries", Version: 1, Tables: `
		CREATE TABLE ` + table + ` (
			n           bigint GENERATED ALWAYS AS IDENTITY,
			campaign_id text COLLATE "C" NOT NULL,
			seq         bigint           NOT NULL,
			amount      bigint           NOT NULL,
			applied_at  timestamptz      NOT NULL DEFAULT clock_timestamp()
		);
		CREATE INDEX ON ` + table + ` (campaign_id, n)`}
	insert := `INSERT INTO ` + table + ` (campaign_id, seq, amount) VALUES ($1, $2, $3)`
	add := func(ctx context.Context, g *projection.Group, e event.Event, a amount) error {
		if before != nil {
			if err := before(ctx, g, e); err != nil {
				return err
			}
		}
		g.Queue(insert, e.CampaignID, e.Seq, a.N)
		return nil
	}
	h.On = []projection.Handler{projection.Handle(added, add)}
	return h
}

// Both returns the two projections without a prefix or a hook.
func Both() []projection.Projection { return []projection.Projection{Entries("", nil), Tallies("")} }
