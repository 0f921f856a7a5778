package ledger

import (
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// After a failover another event may have the seq.
func TestAParkedRowTellsOfTheEventThatWasRefusedLast(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	pair := publications.Key{Topic: "all", Publisher: "out"}
	for what, record := range map[string]func(pgx.Tx, *Refused) error{
		"holds":    func(tx pgx.Tx, r *Refused) error { return Park(t.Context(), tx, pair, r) },
		"left out": func(tx pgx.Tx, r *Refused) error { return LeaveOut(t.Context(), tx, pair, r) },
	} {
		for _, r := range []Refused{
			{Campaign: what, Seq: 3, Position: 30, ID: uuid.NewString(), Type: "lost", Attempts: 8, Final: true, Why: "no"},
			{Campaign: what, Seq: 3, Position: 31, ID: uuid.NewString(), Type: "real", Attempts: 1, Final: true, Why: "never"},
		} {
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return record(tx, &r) })
			var position int64
			var id, eventType, why string
			if err == nil {
				err = pool.QueryRow(t.Context(), `SELECT position, event_id::text, event_type, error_message FROM tidemark.parked
					WHERE campaign_id = $1`, what).Scan(&position, &id, &eventType, &why)
			}
			if err != nil || position != r.Position || id != r.ID || eventType != r.Type || why != r.Why {
				t.Errorf("%s: the row has %d, %s, %s, %q, %v; want %+v", what, position, id, eventType, why, err, r)
			}
		}
	}
}
