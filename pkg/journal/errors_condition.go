package journal

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/store/feed"
)

// ErrConditionFailed is returned by [Journal.AppendIf] when an event stands in the way that the
// decision did not know. The text names the first such event, its place, and the item of the
// condition's query that selects it. Decide again; [Retry] does.
var ErrConditionFailed = errors.New("an event matches the condition")

// ErrInvalidCondition is returned by [Journal.AppendIf] for a condition that knows a position which
// the journal has not reached. It comes from another journal, or from one that has since been
// restored or failed over to a standby that was behind; events that get such positions would go
// unseen. Read and decide again.
var ErrInvalidCondition = errors.New("invalid condition")

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
		var d struct {
			Campaign, Type             string
			Position, Seq, After, Item int64
		}
		if json.Unmarshal([]byte(pgErr.Detail), &d) == nil {
			return detailing(ErrConditionFailed, "event %d of campaign %s (%s) at position %d, past %d, matches item %d of the "+
				"condition: read the new events, decide again, append again", d.Seq, feed.Shortened(d.Campaign),
				feed.Shortened(d.Type), d.Position, d.After, d.Item)
		}
		return fmt.Errorf("append: %w: %w", ErrConditionFailed, err)
	case stateInvalidEvent:
		var d struct{ Known, Last *int64 }
		if json.Unmarshal([]byte(pgErr.Detail), &d) == nil && d.Known != nil && d.Last != nil {
			return detailing(ErrInvalidCondition, "condition: it knows position %d, the journal goes from 1 to %d: read again "+
				"and decide again", *d.Known, *d.Last)
		}
	case stateSerializationFailure:
		return fmt.Errorf("append: %w: %w", ErrStaleSnapshot, err)
	}
	return appendError("", err)
}
