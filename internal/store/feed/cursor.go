package feed

import (
	"context"
	"errors"
	"math"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Start is where a read of the journal begins.
type Start struct {
	event.Cursor        // with the present history
	Floor        int64  // as of [Floor]
	Instance     string // of the database
}

// Resume returns where a read goes on after a cursor, or a [*event.ResetError]. It makes sure that the present
// history has begun, unless it is in a transaction of the caller, where others would wait for its end.
func Resume(ctx context.Context, db event.Querier, after event.Cursor) (s Start, err error) {
	query := queryResume
	if alone(db) {
		query = queryResumeKeeping
	}
	read := func() error {
		return rows.Each(ctx, db, []any{&s.Position, &s.Floor, &s.Instance}, func() {}, "read the writer floor", query,
			after.Position, after.History)
	}
	err = read()
	if code := SQLState(err); query == queryResumeKeeping && (code == stateNoRight || code == stateLocked) {
		query = queryResume
		err = read()
	}
	s.History, _, _ = strings.Cut(s.Instance, "/")
	if err == nil && s.Position < after.Position {
		err = &event.ResetError{Cursor: after, Go: s.Cursor}
	}
	return s, err
}

// SQLSTATEs of a login that may not keep the history, and of one that would wait for it.
const (
	stateNoRight = "42501"
	stateLocked  = "55P03"
)

// alone reports whether a statement is a transaction of its own.
func alone(db event.Querier) bool {
	switch db := db.(type) {
	case Opening:
		return alone(db.Querier)
	case Through:
		return alone(db.Querier)
	case *pgxpool.Pool:
		return true
	case *pgxpool.Conn:
		return alone(db.Conn())
	case *pgx.Conn:
		return db.PgConn().TxStatus() == 'I'
	}
	return false
}

// ResumeCampaign is [Resume] for a reader of a campaign, whose cursors have its seqs as positions.
func ResumeCampaign(ctx context.Context, db event.Querier, campaignID string, after event.Cursor) (s Start, err error) {
	s, err = Resume(ctx, db, event.Cursor{Position: math.MaxInt64, History: after.History})
	if !errors.Is(err, event.ErrReset) {
		return s, err
	}
	var last int64
	err = rows.Each(ctx, db, []any{&last}, func() {}, "look for the end of the campaign", queryLastBefore, campaignID,
		s.Position)
	if s.Position = min(after.Position, last); err == nil && last < after.Position {
		err = &event.ResetError{Cursor: after, Go: s.Cursor}
	}
	return s, err
}

// Instance returns the instance of the database.
func Instance(ctx context.Context, db event.Querier) (instance string, err error) {
	err = rows.Each(ctx, db, []any{&instance}, func() {}, "read the history of the journal", queryPresent)
	return instance, err
}
