package erasure

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Record is what the database keeps of an erasure.
type Record struct {
	ID         int64
	CampaignID string // "": of subjects, which the database does not keep
	BeganAt    time.Time
	EndedAt    *time.Time       // nil: it has not ended
	State      string           // ended, abandoned, running, or interrupted: the same request continues it
	Holder     string           // operator who carries it out, or did last
	HeldUntil  *time.Time       // while it is running: from when the same request can take it over; else nil
	By, Reason string           // of the operator who began it
	Changed    map[string]int64 // rows by table of the schema tidemark
}

// List returns up to limit erasures before one with an id (0: from the newest on), newest first.
func List(ctx context.Context, db event.Querier, before int64, limit int) ([]Record, error) {
	return rows.All(ctx, db, pgx.RowToStructByPos[Record], "list erasures", queryList, before, limit)
}
