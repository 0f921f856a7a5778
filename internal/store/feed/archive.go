package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// ErrObject is [archive.ErrObject].
var ErrObject = errors.New("object of the archive cannot be used")

// Through is a Querier whose reads of campaigns and by position find archived events too.
type Through struct {
	event.Querier
	Archive event.Archive
}

// archivedBy makes an error of the database about archived events match [event.ErrArchived].
func archivedBy(err error) error {
	const archived = "TM014"
	if SQLState(err) == archived {
		return fmt.Errorf("%w: %w", event.ErrArchived, err)
	}
	return err
}

func archiveOf(db event.Querier) event.Archive {
	switch db := db.(type) {
	case Through:
		return db.Archive
	case Opening:
		return archiveOf(db.Querier)
	}
	return nil
}

// StubOf returns what the journal keeps of an archived event, or false if it is not archived.
func StubOf(e *event.Event) (event.Stub, bool) {
	if !Archived(e) {
		return event.Stub{}, false
	}
	s, err := readStub(e)
	return s, err == nil
}

func readStub(e *event.Event) (event.Stub, error) {
	var mark struct {
		Archived event.Stub `json:"$archived"`
	}
	err := json.Unmarshal(e.Metadata, &mark)
	mark.Archived.CampaignID = e.CampaignID
	return mark.Archived, err
}

// expand visits the events that a stub stands for. archive may be nil.
func expand(
	ctx context.Context, archive event.Archive, stub *event.Event, after, until int64, visit func(*event.Event) bool,
) error {
	s, err := readStub(stub)
	if err == nil && archive != nil {
		next, more := after+1, true
		until = min(until, stub.Seq)
		err = archive.Read(ctx, s, after, until, func(e *event.Event) bool {
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
		return &event.ArchivedError{Campaign: stub.CampaignID, Object: s.Object, Err: err}
	}
	return nil
}

// Missing visits events in the place of archived ones that cannot be read, after a seq, up to another.
// They have nothing but their places; their [event.Event.Unreadable] is err. It reports whether err lasts
// until an operator acts: no archive is set, or the object is not as it was written.
func Missing(stub *event.Event, after, until int64, err error, visit func(*event.Event) bool) bool {
	var archived *event.ArchivedError
	if !errors.As(err, &archived) || archived.Err != nil && !errors.Is(err, ErrObject) {
		return false
	}
	e := *stub
	e.Payload, e.Metadata, state(&e).Refused = nil, nil, err
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
func (s span) fill(
	ctx context.Context, archive event.Archive, events []event.Event, size int64,
) ([]event.Event, int64, error) {
	first := 0
	for first < len(events) && !Archived(&events[first]) {
		first++
	}
	if first == len(events) || s.stubs {
		return events, size, nil
	}
	filled, size := make([]event.Event, 0, len(events)), int64(0)
	add := func(e *event.Event) bool {
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
		if !Archived(e) {
			add(e)
		} else if err := expand(ctx, archive, e, after, e.Seq, add); err != nil {
			return nil, 0, err
		}
		after = e.Seq
	}
	return filled, size, nil
}

// AnyArchived reports whether a campaign after one, up to another, is archived.
func AnyArchived(ctx context.Context, db event.Querier, after, last string) (bool, error) {
	return rows.One(ctx, db, pgx.RowTo[bool], "look for archived campaigns", queryAnyArchived, after, last)
}
