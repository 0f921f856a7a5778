package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Errors of appends and reads.
var (
	// ErrVersionConflict: the append's [Expect] is not met. The text names the campaign and both
	// seqs. Read the new events, decide again, append again.
	ErrVersionConflict = errors.New("campaign is not at the expected seq")
	// ErrEventIDReused: another event, in the journal or in the append, has an event id of the append.
	ErrEventIDReused = errors.New("event id was used for another event")
	// ErrPartlyAppended: some of the append's event ids are in the journal and some are not. Nothing was appended.
	ErrPartlyAppended = errors.New("some of the events are in the journal already")
	// ErrStaleSnapshot: a REPEATABLE READ or SERIALIZABLE transaction appends to a campaign that
	// has new events since its snapshot. Retry the transaction.
	ErrStaleSnapshot = errors.New("campaign has moved since the transaction's snapshot")
	// ErrTooManyCampaigns: the transaction appends to more campaigns than tidemark.limits allows
	// (campaigns_per_transaction, 1,000 by default). Commit, and append to the rest in another
	// transaction.
	ErrTooManyCampaigns = errors.New("the transaction appends to too many campaigns")
	// ErrPositionTaken: the sequence of positions is behind the journal, because this database is a copy
	// without the values of its sequences. Nothing was appended. Run tidemark copy repair, then append again.
	ErrPositionTaken = errors.New("the sequence of positions is behind the journal: run tidemark copy repair")
)

// ErrConditionFailed is returned by [Journal.AppendIf] when an event that the decision did not know
// matches the condition. The text names the first one, its place, and the item of the query that
// selects it. Decide again; [Retry] does.
var ErrConditionFailed = errors.New("an event matches the condition")

// ErrInvalidCondition is returned by [Journal.AppendIf] for a condition that names a position the
// journal has not reached, or up to which it may have other events than the decision has read, as after a
// failover or a restore. The condition would miss events that have or get these positions. Read and
// decide again; [Retry] does where the condition names its history.
var ErrInvalidCondition = errors.New("invalid condition")

// errOtherHistory: the condition was decided in another history of the journal.
var errOtherHistory = fmt.Errorf("%w: of another history", ErrInvalidCondition)

// SQLSTATEs that the schema's functions raise, and those of Postgres that appends tell apart.
const (
	stateVersionConflict      = "TM001"
	stateEventIDReused        = "TM002"
	statePartlyAppended       = "TM003"
	stateInvalidEvent         = "TM004"
	stateTooManyCampaigns     = "TM011"
	stateArchived             = "TM014"
	statePositionTaken        = "TM016"
	stateConditionFailed      = "TM020"
	stateCancelled            = "57014"
	stateSerializationFailure = "40001"
	stateDeadlock             = "40P01"
	stateGoingDown            = "57P" // a prefix
	stateDataException        = "22"  // a prefix
)

// appendError converts a database error into the package's errors. It finds the SQLSTATE through an
// interface, so it works with drivers other than pgx.
func appendError(campaignID string, err error) error {
	if err == nil || errors.Is(err, ErrConditionFailed) {
		return err
	}
	what := "append"
	if campaignID != "" {
		what = fmt.Sprintf("append to campaign %q", campaignID)
	}
	code := feed.SQLState(err)
	known := map[string]error{
		stateVersionConflict: ErrVersionConflict, stateEventIDReused: ErrEventIDReused,
		statePartlyAppended: ErrPartlyAppended, stateTooManyCampaigns: ErrTooManyCampaigns,
		stateArchived: event.ErrArchived, statePositionTaken: ErrPositionTaken,
		stateConditionFailed: ErrConditionFailed, stateSerializationFailure: ErrStaleSnapshot,
	}[code]
	switch {
	case known != nil:
	case code != stateInvalidEvent && !strings.HasPrefix(code, stateDataException):
		return fmt.Errorf("%s: %w", what, err)
	default:
		known = &InvalidEventError{
			Campaign: campaignID, Index: -1, Field: "events", Reason: "are refused: " + err.Error(),
		}
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		if told := explained(known, []byte(pgErr.Detail)); told != nil {
			return told
		}
	}
	if _, refused := errors.AsType[*InvalidEventError](known); refused {
		return known
	}
	return fmt.Errorf("%s: %w: %w", what, known, err)
}

// explained returns a known error with the facts of its detail, a JSON document; nil if it has none.
func explained(known error, detail []byte) error {
	var d struct {
		InvalidEventError
		Expected, Actual, Position, Seq, After, Item int64
		Known, Last                                  *int64
		Object, History                              string
	}
	if json.Unmarshal(detail, &d) != nil {
		return nil
	}
	switch {
	case errors.Is(known, event.ErrArchived) && d.Campaign != "":
		return text.Detail(known, "campaign %q is archived in %s: ask for it with archive.Ask (tidemark.ask_restore), or "+
			"bring it back with tidemark campaign restore, then append again", d.Campaign, d.Object)
	case errors.Is(known, ErrVersionConflict):
		return text.Detail(known, "campaign %q is at seq %d, the append expects it at %d: read the new events, "+
			"decide again, append again", d.Campaign, d.Actual, d.Expected)
	case errors.Is(known, ErrConditionFailed):
		return text.Detail(known, "event %d of campaign %s (%s) at position %d, past %d, matches item %d of the "+
			"condition: read the new events, decide again, append again", d.Seq, text.Shortened(d.Campaign),
			text.Shortened(d.Type), d.Position, d.After, d.Item)
	case d.Known != nil && d.Last != nil:
		return text.Detail(ErrInvalidCondition, "condition: it knows position %d, the journal goes from 1 to %d: read "+
			"again and decide again", *d.Known, *d.Last)
	case d.Known != nil && d.History != "":
		return text.Detail(errOtherHistory, "condition: it knows the journal up to %s, which may have other events up to "+
			"there by now: a failover, a restore or a crash has taken commits; read again and decide again",
			event.Cursor{Position: *d.Known, History: d.History})
	case d.Reason != "":
		return &d.InvalidEventError
	}
	return nil
}

// InvalidEventError names the refused event and the reason. Nothing is written. It quotes no payload.
type InvalidEventError struct {
	Campaign string // the campaign of the call, as given
	Index    int    // the event's index in the call, from 0; -1 if the call itself is refused
	Type     string // the event's type, as given
	Field    string // the field at fault: "payload", "tags[3]", …
	Reason   string // what is wrong with it, the limit, and what to do
}

// Error names the event, the field, the reason and the remedy. Long values are shortened.
func (e *InvalidEventError) Error() string {
	what := "append to"
	if e.Index >= 0 {
		what = fmt.Sprintf("events[%d] (%s) of", e.Index, text.Shortened(e.Type))
	}
	return fmt.Sprintf("%s campaign %s: %s %s", what, text.Shortened(e.Campaign), e.Field, e.Reason)
}
