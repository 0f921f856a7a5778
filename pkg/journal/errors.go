package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/store/feed"
)

// Errors of appends and reads.
var (
	// ErrVersionConflict is matched by every [*VersionConflictError].
	ErrVersionConflict = errors.New("campaign is not at the expected seq")
	// ErrEventIDReused: an event id of the append belongs to an event with another content, or twice to the same append.
	ErrEventIDReused = errors.New("event id was used for another event")
	// ErrPartlyAppended: some of the append's event ids are in the journal and some are not. Nothing was appended.
	ErrPartlyAppended = errors.New("some of the events are in the journal already")
	// ErrStaleSnapshot: a REPEATABLE READ or SERIALIZABLE transaction appends to a campaign that has
	// moved since its snapshot. Retry the transaction.
	ErrStaleSnapshot = errors.New("campaign has moved since the transaction's snapshot")
	// ErrTooManyCampaigns: the transaction appends to more campaigns than tidemark.limits allows
	// (campaigns_per_transaction, 1,000 by default). Commit, and append to the others in another
	// transaction.
	ErrTooManyCampaigns = errors.New("the transaction appends to too many campaigns")
)

// VersionConflictError is returned by an append whose [Expect] is not met. Read the new events,
// decide again, append again.
type VersionConflictError struct {
	Campaign string
	Expected int64
	Actual   int64 // the campaign's last seq, as the append saw it
}

func (e *VersionConflictError) Error() string {
	return fmt.Sprintf("campaign %q is at seq %d, the append expects it at %d: read the new events, decide again, "+
		"append again", e.Campaign, e.Actual, e.Expected)
}

// Is reports whether target is [ErrVersionConflict].
func (e *VersionConflictError) Is(target error) bool { return target == ErrVersionConflict }

// The SQLSTATEs that the schema's functions raise.
const (
	stateVersionConflict  = "TM001"
	stateEventIDReused    = "TM002"
	statePartlyAppended   = "TM003"
	stateInvalidEvent     = "TM004"
	stateTooManyCampaigns = "TM011"
)

// appendError turns what the database answered into the package's errors. The SQLSTATE is asked for
// through an interface, so that other drivers than pgx are understood.
func appendError(campaignID string, err error) error {
	var state interface{ SQLState() string }
	if !errors.As(err, &state) {
		return fmt.Errorf("append to campaign %q: %w", campaignID, err)
	}
	var detail string
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		detail = pgErr.Detail
	}
	switch state.SQLState() {
	case stateVersionConflict:
		var d struct {
			Campaign         string
			Expected, Actual int64
		}
		if json.Unmarshal([]byte(detail), &d) == nil {
			return &VersionConflictError{Campaign: d.Campaign, Expected: d.Expected, Actual: d.Actual}
		}
		return fmt.Errorf("append to campaign %q: %w: %w", campaignID, ErrVersionConflict, err)
	case stateEventIDReused:
		return fmt.Errorf("append to campaign %q: %w: %w", campaignID, ErrEventIDReused, err)
	case statePartlyAppended:
		return fmt.Errorf("append to campaign %q: %w: %w", campaignID, ErrPartlyAppended, err)
	case stateInvalidEvent:
		var d InvalidEventError
		if json.Unmarshal([]byte(detail), &d) == nil && d.Reason != "" {
			return &d
		}
		return fmt.Errorf("append to campaign %q: %w: %w", campaignID, ErrInvalidEvent, err)
	case stateTooManyCampaigns:
		return fmt.Errorf("append to campaign %q: %w: %w", campaignID, ErrTooManyCampaigns, err)
	case stateSerializationFailure:
		return fmt.Errorf("append to campaign %q: %w: %w", campaignID, ErrStaleSnapshot, err)
	}
	return fmt.Errorf("append to campaign %q: %w", campaignID, err)
}

// ErrInvalidEvent is matched by every [InvalidEventError]. Append answers with one before it talks to the database,
// and nothing is written.
var ErrInvalidEvent = errors.New("invalid event")

// InvalidEventError says which event of a call was refused and why. It never quotes a payload.
type InvalidEventError struct {
	Campaign string // the campaign of the call, as given
	Index    int    // the event's place in the call, from 0; -1 when the call itself is refused
	Type     string // the event's type, as given
	Field    string // the field at fault: "payload", "tags[3]", …
	Reason   string // what is wrong with it, the limit, and what to do
}

// Error names the event, the field, the reason and the remedy. Long values are shortened.
func (e *InvalidEventError) Error() string {
	var b strings.Builder
	if e.Index < 0 {
		fmt.Fprintf(&b, "append to campaign %s: ", feed.Shortened(e.Campaign))
	} else {
		fmt.Fprintf(&b, "events[%d] (%s) of campaign %s: ", e.Index, feed.Shortened(e.Type), feed.Shortened(e.Campaign))
	}
	b.WriteString(e.Field)
	b.WriteByte(' ')
	b.WriteString(e.Reason)
	return b.String()
}

// Is reports whether target is [ErrInvalidEvent].
func (e *InvalidEventError) Is(target error) bool { return target == ErrInvalidEvent }
