package feed

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Cursor is [journal.Cursor].
type Cursor struct {
	Position int64
	History  string // of the journal; "": the present one
}

// String returns "position@history", or the position alone without a history.
func (c Cursor) String() string {
	text := strconv.FormatInt(c.Position, 10)
	if c.History != "" {
		text += "@" + c.History
	}
	return text
}

// ParseCursor is [journal.ParseCursor].
func ParseCursor(text string) (c Cursor, err error) {
	position, history, named := strings.Cut(text, "@")
	c.History = history
	if c.Position, err = strconv.ParseInt(position, 10, 64); err != nil || c.Position < 0 || named && history == "" {
		return Cursor{}, fmt.Errorf("%w: %s is neither a position, 0 or more, nor a position and a history, like "+
			"17@8f3c0a5be1d24967: pass a cursor unchanged", ErrInvalidCursor, Shortened(text))
	}
	return c, nil
}

// Errors of cursors.
var (
	ErrInvalidCursor = errors.New("invalid cursor")
	ErrReset         = errors.New("the cursor is not of this journal")
)

// ResetError is [journal.ResetError].
type ResetError struct {
	Cursor Cursor // that was given
	Go     Cursor // from where to go on
}

// Error names both cursors.
func (e *ResetError) Error() string {
	return fmt.Sprintf("the journal may have other events than those up to cursor %s: a failover, a restore or a crash "+
		"has taken commits, or the cursor is another journal's; go on after %s", e.Cursor, e.Go)
}

// Is reports whether target is [ErrReset].
func (e *ResetError) Is(target error) bool { return target == ErrReset }

// Start is where a read of the journal begins.
type Start struct {
	Cursor          // with the present history
	Floor    int64  // as of [Floor]
	Instance string // of the database
}

// Resume returns where a read goes on after a cursor, or a [*ResetError]. It makes sure that the present
// history has begun, unless it is in a transaction of the caller, where others would wait for its end.
func Resume(ctx context.Context, db Querier, after Cursor) (s Start, err error) {
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
		err = &ResetError{Cursor: after, Go: s.Cursor}
	}
	return s, err
}

// SQLSTATEs of a login that may not keep the history, and of one that would wait for it.
const (
	stateNoRight = "42501"
	stateLocked  = "55P03"
)

// alone reports whether a statement is a transaction of its own.
func alone(db Querier) bool {
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
func ResumeCampaign(ctx context.Context, db Querier, campaignID string, after Cursor) (s Start, err error) {
	s, err = Resume(ctx, db, Cursor{Position: math.MaxInt64, History: after.History})
	if !errors.Is(err, ErrReset) {
		return s, err
	}
	var last int64
	err = rows.Each(ctx, db, []any{&last}, func() {}, "look for the end of the campaign", queryLastBefore, campaignID,
		s.Position)
	if s.Position = min(after.Position, last); err == nil && last < after.Position {
		err = &ResetError{Cursor: after, Go: s.Cursor}
	}
	return s, err
}

// Instance returns the instance of the database.
func Instance(ctx context.Context, db Querier) (instance string, err error) {
	err = rows.Each(ctx, db, []any{&instance}, func() {}, "read the history of the journal", queryPresent)
	return instance, err
}
