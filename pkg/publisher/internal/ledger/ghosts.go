package ledger

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tidemark-go/tidemark/internal/store/publications"
)

// Sent is an event that a sink accepted.
type Sent struct {
	Campaign      string
	ID            uuid.UUID
	Seq, Position int64
}

// Absent returns the events that the journal lacks, and records them up to most ghosts of the pair.
func (l *Ledger) Absent(
	ctx context.Context, pair publications.Key, events []Sent, most int,
) (absent []Sent, err error) {
	campaigns, ids := make([]string, len(events)), make([]string, len(events))
	seqs, positions := make([]int64, len(events)), make([]int64, len(events))
	for i, s := range events {
		campaigns[i], ids[i], seqs[i], positions[i] = s.Campaign, s.ID.String(), s.Seq, s.Position
	}
	err = l.Use(ctx, func(conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, queryGhosts, pair.Topic, pair.Publisher, campaigns, ids, seqs, positions, most)
		if err != nil {
			return err
		}
		absent, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Sent])
		return err
	})
	return absent, err
}
