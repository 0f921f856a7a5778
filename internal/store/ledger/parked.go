package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Refused is the record of an event that a sink refused.
type Refused struct {
	Campaign      string
	Seq, Position int64
	ID, Type      string
	Attempts      int
	Final         bool          // no further attempt: it waits for an operator
	Delay         time.Duration // until the next attempt
	Why           string
	ErasedBy      string // the last erasure that the refused event tells of; after a later one Why is not kept
}

func (r *Refused) status() string {
	if r.Final {
		return "parked"
	}
	return "retrying"
}

// Park records an event that holds back its campaign.
func Park(ctx context.Context, tx pgx.Tx, pair publications.Key, r *Refused) error {
	return rows.Do(ctx, tx, "", queryPark, pair.Topic, pair.Publisher, r.Campaign, r.Seq, r.Position, r.ID, r.Type,
		r.status(), r.Attempts, r.Delay, r.Why, r.ErasedBy)
}

// LeaveOut records an event that is given up and does not hold back its campaign.
func LeaveOut(ctx context.Context, tx pgx.Tx, pair publications.Key, r *Refused) error {
	return rows.Do(ctx, tx, "", queryLeaveOut, pair.Topic, pair.Publisher, r.Campaign, r.Seq, r.Position, r.ID, r.Type,
		r.Attempts, r.Why, r.ErasedBy)
}

// Parked is a row of parked, as last seen. Every write compares all of it: an operator's act wins.
type Parked struct {
	publications.Key
	Campaign string
	Seq      int64
	Holds    bool
	Position int64
	Status   string
	Attempts int
}

func (row *Parked) where(more ...any) []any {
	return append([]any{row.Topic, row.Publisher, row.Campaign, row.Seq, row.Holds, row.Status, row.Attempts}, more...)
}

// ErrActed is returned by [Parked.Advance] if an operator has changed the row meanwhile.
var ErrActed = errors.New("the campaign's place was changed meanwhile")

// Advance moves the campaign's place to event seq. position is that of the previous event.
func (row *Parked) Advance(ctx context.Context, tx pgx.Tx, seq, position int64) error {
	tag, err := tx.Exec(ctx, queryDrained, row.where(seq, position)...)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrActed
	}
	if err == nil {
		row.Seq, row.Status, row.Attempts, row.Position = seq, "draining", 0, position
	}
	return err
}

// Remove deletes the row: the campaign has caught up.
func (row *Parked) Remove(ctx context.Context, tx pgx.Tx) error {
	return rows.Do(ctx, tx, "", queryUnpark, row.where()...)
}

// Postpone records another refusal of the campaign's next event.
func (row *Parked) Postpone(ctx context.Context, tx pgx.Tx, r *Refused) error {
	return rows.Do(ctx, tx, "", queryPostpone,
		row.where(r.status(), r.Attempts, r.Delay, r.Why, r.ID, r.Type, r.Position, r.ErasedBy)...)
}

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
	err = l.Use(ctx, func(conn *pgxpool.Conn) (err error) {
		absent, err = rows.All(ctx, conn, pgx.RowToStructByPos[Sent], "",
			queryGhosts, pair.Topic, pair.Publisher, campaigns, ids, seqs, positions, most)
		return err
	})
	return absent, err
}
