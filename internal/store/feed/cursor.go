package feed

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

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

// Resume returns where a read goes on after a cursor, or a [*ResetError].
func Resume(ctx context.Context, db Querier, after Cursor) (s Start, err error) {
	err = rows.Each(ctx, db, []any{&s.Position, &s.Floor, &s.Instance}, func() {}, "read the writer floor", queryResume,
		after.Position, after.History)
	s.History, _, _ = strings.Cut(s.Instance, "/")
	if err == nil && s.Position < after.Position {
		err = &ResetError{Cursor: after, Go: s.Cursor}
	}
	return s, err
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
