package event

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark-go/tidemark/internal/text"
)

// Cursor is a place in the journal: a position, with the history of the journal in which it was read.
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

// ParseCursor parses the text of a [Cursor], or returns [ErrInvalidCursor]. A position alone is a cursor of
// the present history.
func ParseCursor(s string) (c Cursor, err error) {
	position, history, named := strings.Cut(s, "@")
	c.History = history
	if c.Position, err = strconv.ParseInt(position, 10, 64); err != nil || c.Position < 0 || named && history == "" {
		return Cursor{}, fmt.Errorf("%w: %s is neither a position, 0 or more, nor a position and a history, like "+
			"17@8f3c0a5be1d24967: pass a cursor unchanged", ErrInvalidCursor, text.Shortened(s))
	}
	return c, nil
}

// Errors of cursors.
var (
	// ErrInvalidCursor is returned by [ParseCursor].
	ErrInvalidCursor = errors.New("invalid cursor")
	// ErrReset matches every [*ResetError].
	ErrReset = errors.New("the cursor is not of this journal")
)

// ResetError is returned for a cursor up to which the journal may have other events than its reader has
// seen: it is of an older history, beyond what is known to be the same, or beyond the end. The reader goes on
// after Go: it gets events again, or others in their place. It matches [ErrReset].
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
