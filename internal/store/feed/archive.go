package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// ErrArchived matches every [*ArchivedError], and the errors of the database about archived events.
var ErrArchived = errors.New("the events are archived")

// ErrObject is [archive.ErrObject].
var ErrObject = errors.New("object of the archive cannot be used")

// ArchivedError is [journal.ArchivedError].
type ArchivedError struct {
	Campaign string // "": events of several, read by position
	Object   string // of the archive
	Err      error  // why it cannot be read; nil: no archive is set
}

// Error names the campaign, the object and what to do.
func (e *ArchivedError) Error() string {
	switch {
	case e.Err != nil && e.Campaign == "":
		return fmt.Sprintf("archived events cannot be read: %v", e.Err)
	case e.Err != nil:
		return fmt.Sprintf("campaign %s is archived, and its events cannot be read: %v", Shortened(e.Campaign), e.Err)
	}
	return fmt.Sprintf("campaign %s is archived in %s: set TIDEMARK_ARCHIVE_URL, or bring it back with tidemark "+
		"campaign restore", Shortened(e.Campaign), e.Object)
}

// Unwrap returns Err.
func (e *ArchivedError) Unwrap() error { return e.Err }

// Is reports whether target is [ErrArchived].
func (e *ArchivedError) Is(target error) bool { return target == ErrArchived }

// Stub is what the journal keeps of an archived event. In a campaign it stands for all events after
// the one before it, up to itself.
type Stub struct {
	CampaignID string
	Object     string // of the archive, with its hash in hex and its size
	SHA256     string
	Bytes      int64
}

// Archive reads archived events. visit gets those of the stub's campaign after one seq and up to
// another, in order, until it returns false. The event is reused after the call.
type Archive interface {
	Read(ctx context.Context, s Stub, after, until int64, visit func(*Event) bool) error
	Positions
}

// Positions reads archived events in order of position: the limits of w apply. until is the position it
// read up to. mark tells which archives there are; known is the mark for which the events are complete
// up to until. With a mark of 0 it returns what it has at hand: perhaps nothing, with a known of 0.
type Positions interface {
	ReadPositions(ctx context.Context, db Querier, mark int64, w Window) (events []Event, until, known int64, err error)
}

// Through is a Querier whose reads of campaigns and by position find archived events too.
type Through struct {
	Querier
	Archive Archive
}

// Archived reports whether an event is only a stub.
func Archived(e *Event) bool { return e.archived }

// NewDecoded prepares an event that was not read from the database.
func NewDecoded(e *Event) { e.decoded = new(decoded) }

// archivedBy makes an error of the database about archived events match [ErrArchived].
func archivedBy(err error) error {
	const archived = "TM014"
	if SQLState(err) == archived {
		return fmt.Errorf("%w: %w", ErrArchived, err)
	}
	return err
}

func archiveOf(db Querier) Archive {
	switch db := db.(type) {
	case Through:
		return db.Archive
	case Opening:
		return archiveOf(db.Querier)
	}
	return nil
}

// StubOf returns what the journal keeps of an archived event, or false if it is not archived.
func StubOf(e *Event) (Stub, bool) {
	if !Archived(e) {
		return Stub{}, false
	}
	s, err := readStub(e)
	return s, err == nil
}

func readStub(e *Event) (Stub, error) {
	var mark struct {
		Archived Stub `json:"$archived"`
	}
	err := json.Unmarshal(e.Metadata, &mark)
	mark.Archived.CampaignID = e.CampaignID
	return mark.Archived, err
}

// expand visits the events that a stub stands for. archive may be nil.
func expand(ctx context.Context, archive Archive, stub *Event, after, until int64, visit func(*Event) bool) error {
	s, err := readStub(stub)
	if err == nil && archive != nil {
		next, more := after+1, true
		until = min(until, stub.Seq)
		err = archive.Read(ctx, s, after, until, func(e *Event) bool {
			if more = e.Seq == next; more {
				next++
				more = visit(e) && next <= until
			} else {
				next = 0
			}
			return more
		})
		if err == nil && (next == 0 || more && next <= until) {
			err = fmt.Errorf("%s lacks events of it between %d and %d", s.Object, after, until)
		}
	}
	if err != nil || archive == nil {
		return &ArchivedError{Campaign: stub.CampaignID, Object: s.Object, Err: err}
	}
	return nil
}

// Missing visits events in the place of archived ones that cannot be read, after a seq, up to another.
// They have nothing but their places; their [Event.Unreadable] is err. It reports whether err lasts
// until an operator acts: no archive is set, or the object is not as it was written.
func Missing(stub *Event, after, until int64, err error, visit func(*Event) bool) bool {
	var archived *ArchivedError
	if !errors.As(err, &archived) || archived.Err != nil && !errors.Is(err, ErrObject) {
		return false
	}
	e := *stub
	e.Payload, e.Metadata, e.refused = nil, nil, err
	for e.Seq = after + 1; e.Seq <= min(until, stub.Seq) && visit(&e); {
		e.Seq++
	}
	return true
}

// span is what a read of a campaign covers. The zero value is a read of single events.
type span struct {
	after         int64 // a seq
	untilPosition int64 // 0: the last
	events        int
	bytes         int64
	stubs         bool // leave them as they are
}

// fill replaces the stubs in events by what they stand for, within the span's limits.
func (s span) fill(ctx context.Context, archive Archive, events []Event, size int64) ([]Event, int64, error) {
	first := 0
	for first < len(events) && !events[first].archived {
		first++
	}
	if first == len(events) || s.stubs {
		return events, size, nil
	}
	filled, size := make([]Event, 0, len(events)), int64(0)
	add := func(e *Event) bool {
		if s.untilPosition > 0 && e.Position > s.untilPosition {
			return false
		}
		filled = append(filled, *e)
		size += int64(len(e.Payload) + len(e.Metadata))
		return s.events == 0 || len(filled) < s.events && size < s.bytes
	}
	after := s.after
	for i := range events {
		e := &events[i]
		if s.events == 0 {
			after = e.Seq - 1
		}
		if s.events > 0 && (len(filled) >= s.events || size >= s.bytes) {
			break
		}
		if !e.archived {
			add(e)
		} else if err := expand(ctx, archive, e, after, e.Seq, add); err != nil {
			return nil, 0, err
		}
		after = e.Seq
	}
	return filled, size, nil
}

// AnyArchived reports whether a campaign after one, up to another, is archived.
func AnyArchived(ctx context.Context, db Querier, after, last string) (bool, error) {
	return rows.One(ctx, db, pgx.RowTo[bool], "look for archived campaigns", queryAnyArchived, after, last)
}
