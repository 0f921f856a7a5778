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
	// ErrVersionConflict: the append's [Expect] is not met. The text names the campaign and both seqs. Read the new
	// events, decide again, append again.
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

// detailed is a sentinel with a text of its own.
type detailed struct {
	text     string
	sentinel error
}

func (e *detailed) Error() string { return e.text }
func (e *detailed) Unwrap() error { return e.sentinel }

func detailing(sentinel error, format string, args ...any) error {
	return &detailed{fmt.Sprintf(format, args...), sentinel}
}

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
			return detailing(ErrVersionConflict, "campaign %q is at seq %d, the append expects it at %d: read the new events, "+
				"decide again, append again", d.Campaign, d.Actual, d.Expected)
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
		return &InvalidEventError{Campaign: campaignID, Index: -1, Field: "events", Reason: "are refused: " + err.Error()}
	case stateTooManyCampaigns:
		return fmt.Errorf("append to campaign %q: %w: %w", campaignID, ErrTooManyCampaigns, err)
	case stateSerializationFailure:
		return fmt.Errorf("append to campaign %q: %w: %w", campaignID, ErrStaleSnapshot, err)
	}
	return fmt.Errorf("append to campaign %q: %w", campaignID, err)
}

// InvalidEventError says which event of a call was refused and why. Nothing is written; what the
// journal's own limits refuse does not reach the database. It never quotes a payload.
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
