package journal

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/store/feed"
)

// ErrConditionFailed is matched by every [*ConditionError].
var ErrConditionFailed = errors.New("an event matches the condition")

// ConditionError is returned by [Journal.AppendIf] when an event stands in the way that the
// decision did not know. Decide again; [Retry] does.
type ConditionError struct {
	Position int64  // of the first such event
	Campaign string // its campaign
	Seq      int64  // its place there
	Type     string // its type
	Item     int    // the first item of the condition's query that selects it, from 0
	After    int64  // the condition's
}

// Error names the event, the item and the remedy.
func (e *ConditionError) Error() string {
	return fmt.Sprintf("event %d of campaign %s (%s) at position %d, past %d, matches item %d of the condition: read "+
		"the new events, decide again, append again",
		e.Seq, feed.Shortened(e.Campaign), feed.Shortened(e.Type), e.Position, e.After, e.Item)
}

// Is reports whether target is [ErrConditionFailed].
func (e *ConditionError) Is(target error) bool { return target == ErrConditionFailed }

// ErrInvalidCondition is matched by every [*InvalidConditionError].
var ErrInvalidCondition = errors.New("invalid condition")

// InvalidConditionError is returned by [Journal.AppendIf] for a condition that knows a position
// which the journal has not reached. It comes from another journal, or from one that has since been
// restored or failed over to a standby that was behind; events that get such positions would go
// unseen. Read and decide again.
type InvalidConditionError struct {
	Known int64 // the position: the condition's After, as a rule
	Last  int64 // the highest that the journal has given away
}

// Error names the position, the limit and the remedy.
func (e *InvalidConditionError) Error() string {
	return fmt.Sprintf("condition: it knows position %d, the journal goes from 1 to %d: read again and decide again",
		e.Known, e.Last)
}

// Is reports whether target is [ErrInvalidCondition].
func (e *InvalidConditionError) Is(target error) bool { return target == ErrInvalidCondition }

// The SQLSTATEs of conditional appends.
const (
	stateConditionFailed      = "TM020"
	stateSerializationFailure = "40001"
	stateDeadlock             = "40P01"
	stateGoingDown            = "57P" // and what went on
)

// conditionError is appendError for conditional appends.
func conditionError(err error) error {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return appendError("", err)
	}
	switch pgErr.Code {
	case stateConditionFailed:
		var e ConditionError
		if json.Unmarshal([]byte(pgErr.Detail), &e) == nil {
			return &e
		}
		return fmt.Errorf("append: %w: %w", ErrConditionFailed, err)
	case stateInvalidEvent:
		var d struct{ Known, Last *int64 }
		if json.Unmarshal([]byte(pgErr.Detail), &d) == nil && d.Known != nil && d.Last != nil {
			return &InvalidConditionError{Known: *d.Known, Last: *d.Last}
		}
	case stateSerializationFailure:
		return fmt.Errorf("append: %w: %w", ErrStaleSnapshot, err)
	}
	return appendError("", err)
}
