package journal

import (
	"bytes"
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/admission"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Journal appends events. A literal is a journal, and the zero value accepts events of any type. It is safe for
// concurrent use, unless its fields are changed.
type Journal struct {
	// Catalogue fills in versions and intents, refuses events and seals personal fields. nil: it accepts any
	// type, at version 1 and intent ProjectionAndReplay.
	Catalogue *catalogue.Catalogue

	// Trace returns the trace context of ctx (https://www.w3.org/TR/trace-context/), such as telemetry.Trace.
	// Events that have none get it in their metadata, as traceparent and tracestate, so that workers link to
	// the trace that appended them. It is no part of what a repeat must have the same. nil: none.
	Trace func(ctx context.Context) (traceparent, tracestate string)

	// Retry is for [Journal.CommitIf], [Journal.Do] and [Journal.Commit]: how often they try again.
	Retry Retry
}

// Append adds events to a campaign in the caller's transaction. They and their work items commit
// with it, or not at all. Other transactions that append to the campaign wait until it ends.
//
// Append is idempotent by event id, e.g. after a COMMIT whose reply was lost: it then returns the
// places the events already have ([Appended.Duplicate]), whatever expect says.
//
// Errors: [ErrVersionConflict] (expect is not met), [*InvalidEventError], [ErrEventIDReused],
// [ErrPartlyAppended], [ErrStaleSnapshot], [ErrTooManyCampaigns]. After any database error the
// transaction can only be rolled back.
func (j Journal) Append(
	ctx context.Context, tx Tx, campaignID string, expect Expect, events ...event.Event,
) ([]Appended, error) {
	doc, err := j.encode(ctx, tx, campaignID, events)
	if err != nil || len(events) == 0 {
		return nil, err
	}
	return placesOf(ctx, tx, campaignID, len(events), queryAppend, campaignID, doc, expect.argument())
}

// AppendAll adds events to several campaigns in one round trip. It locks the campaigns in one
// order, so two such calls never deadlock. Its errors are those of [Journal.Append].
func (j Journal) AppendAll(ctx context.Context, tx Tx, batches ...Batch) ([]Appended, error) {
	doc, n, err := j.encodeAll(ctx, tx, batches)
	if err != nil || n == 0 {
		return nil, err
	}
	return placesOf(ctx, tx, "", n, queryAppendAll, doc)
}

// placesOf runs an append of n events and reads their places. campaignID is for errors.
func placesOf(
	ctx context.Context, tx Tx, campaignID string, n int, query string, args ...any,
) ([]Appended, error) {
	found, err := ask(ctx, tx, query, args...)
	places, err := placesIn(found, err, campaignID, n)
	return places, encodingOf(ctx, tx, err)
}

// placesIn reads the places of n events from an append's rows and closes them.
func placesIn(found rows.Result, err error, campaignID string, n int) ([]Appended, error) {
	if err != nil {
		return nil, appendError(campaignID, err)
	}
	places, err := readPlaces(found, n)
	return places, appendError(campaignID, cmp.Or(err, found.Close()))
}

// readPlaces reads the places of n events. A row without an id means [ErrConditionFailed].
func readPlaces(found rows.Result, n int) ([]Appended, error) {
	places, none := make([]Appended, 0, n), true
	for found.Next() {
		none = false
		var place Appended
		var id uuid.NullUUID
		var duplicate *bool
		if err := found.Scan(&place.CampaignID, &place.Seq, &place.Position, &id, &duplicate); err != nil {
			return nil, err
		}
		if place.ID = id.UUID; id.Valid {
			place.Duplicate = *duplicate
			places = append(places, place)
		}
	}
	switch err := found.Err(); {
	case err != nil:
		return nil, err
	case none:
		return nil, errNothingDone
	case len(places) < n:
		return nil, ErrConditionFailed
	}
	return places, nil
}

// Encode validates events and encodes them as the JSON document that tidemark.append and
// tidemark.append_at take, for statements of one's own. db is the transaction of the append, in which the keys of
// persons who are new are made; it may be nil if the catalogue seals nothing. Errors: [*InvalidEventError].
func (j Journal) Encode(
	ctx context.Context, db event.Querier, campaignID string, events []event.Event,
) (string, error) {
	return j.encode(ctx, db, campaignID, events)
}

// encode encodes events of one campaign. tx may be nil.
func (j Journal) encode(
	ctx context.Context, tx event.Querier, campaignID string, events []event.Event,
) (string, error) {
	if err := checkEncoding(tx); err != nil {
		return "", appendError(campaignID, err)
	}
	admit, err := admission.Of(ctx, j.Catalogue, tx, [][]event.Event{events})
	if err != nil {
		return "", appendError(campaignID, err)
	}
	size := 2
	for i := range events {
		size += 160 + len(events[i].Payload) + len(events[i].Metadata)
	}
	doc, err := j.encodeEvents(ctx, make([]byte, 0, size), campaignID, events, admit)
	return string(doc), err
}

func (j Journal) encodeAll(ctx context.Context, tx event.Querier, batches []Batch) (doc string, n int, err error) {
	if err := checkEncoding(tx); err != nil {
		return "", 0, appendError("", err)
	}
	all := slice.Of(batches, func(b Batch) []event.Event { return b.Events })
	admit, err := admission.Of(ctx, j.Catalogue, tx, all)
	if err != nil {
		return "", 0, appendError("", err)
	}
	buf := []byte{'['}
	for _, b := range batches {
		if len(b.Events) == 0 {
			continue
		}
		n += len(b.Events)
		if len(buf) > 1 {
			buf = append(buf, ',')
		}
		buf = text.AppendJSON(append(buf, `{"campaign_id":`...), b.CampaignID)
		if b.Expect.checked {
			buf = strconv.AppendInt(append(buf, `,"expect":`...), b.Expect.seq, 10)
		}
		if buf, err = j.encodeEvents(ctx, append(buf, `,"events":`...), b.CampaignID, b.Events, admit); err != nil {
			return "", 0, err
		}
		buf = append(buf, '}')
	}
	return string(append(buf, ']')), n, nil
}

func (j Journal) encodeEvents(
	ctx context.Context, buf []byte, campaignID string, events []event.Event, admit admission.Admit,
) ([]byte, error) {
	buf = append(buf, '[')
	trace := j.trace(ctx)
	for i := range events {
		e := events[i] // a copy, which the context and the catalogue fill in
		if fields := feed.CauseFields(ctx, &e); len(fields) > 0 {
			e.Metadata = withFields(e.Metadata, fields)
		}
		if len(trace) > 0 && !bytes.Contains(e.Metadata, []byte(`"traceparent"`)) {
			e.Metadata = withFields(e.Metadata, trace)
		}
		err := validate(campaignID, &e)
		if err == nil {
			err = admit(campaignID, &e)
		}
		if err != nil {
			return nil, refused(err, campaignID, i, &events[i])
		}
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = appendEvent(buf, &e)
	}
	return append(buf, ']'), nil
}

// trace returns the metadata fields of a trace context; none: there is no trace.
func (j Journal) trace(ctx context.Context) map[string]string {
	if j.Trace == nil {
		return nil
	}
	parent, state := j.Trace(ctx)
	switch {
	case parent == "":
		return nil
	case state == "":
		return map[string]string{"traceparent": parent}
	}
	return map[string]string{"traceparent": parent, "tracestate": state}
}

func appendEvent(buf []byte, e *event.Event) []byte {
	buf = text.AppendJSON(append(buf, `{"type":`...), e.Type)
	if e.ID != uuid.Nil {
		buf = append(append(append(buf, `,"id":"`...), e.ID.String()...), '"')
	}
	if e.Version != 1 {
		buf = strconv.AppendInt(append(buf, `,"version":`...), int64(e.Version), 10)
	}
	intent := string(e.Intent)
	if e.Intent == event.ProjectionAndReplay {
		intent = "" // the default of tidemark.append
	}
	for _, f := range [...]struct{ name, value string }{
		{`,"intent":`, intent},
		{`,"aggregate_type":`, e.AggregateType},
		{`,"aggregate_id":`, e.AggregateID},
		{`,"actor":`, e.Actor},
	} {
		if f.value != "" {
			buf = text.AppendJSON(append(buf, f.name...), f.value)
		}
	}
	for i, tag := range e.Tags {
		if i == 0 {
			buf = append(buf, `,"tags":[`...)
		} else {
			buf = append(buf, ',')
		}
		buf = text.AppendJSON(buf, tag)
	}
	if len(e.Tags) > 0 {
		buf = append(buf, ']')
	}
	if len(e.Payload) > 0 {
		buf = append(append(buf, `,"payload":`...), e.Payload...)
	}
	if len(e.Metadata) > 0 {
		buf = append(append(buf, `,"metadata":`...), e.Metadata...)
	}
	if !e.OccurredAt.IsZero() {
		buf = append(append(append(buf, `,"occurred_at":"`...), e.OccurredAt.UTC().Format(time.RFC3339Nano)...), '"')
	}
	return append(buf, '}')
}

func (e Expect) argument() *int64 {
	if !e.checked {
		return nil
	}
	return &e.seq
}

// Appended is an event's place in the journal.
type Appended struct {
	CampaignID string
	ID         uuid.UUID
	Seq        int64
	Position   int64
	Duplicate  bool // the event was in the journal before; nothing was written for it
}

// Batch is the events of one campaign in a call of [Journal.AppendAll].
type Batch struct {
	CampaignID string
	Expect     Expect
	Events     []event.Event
}

// Expect is where the caller believes a campaign stands when it appends. The zero value is [Any].
type Expect struct {
	checked bool
	seq     int64
}

// Any appends wherever the campaign stands.
var Any = Expect{}

// None appends only to a campaign without events.
var None = Expect{checked: true}

// Exactly appends only if the campaign's last event is number seq. Exactly(0) is [None].
func Exactly(seq int64) Expect { return Expect{checked: true, seq: seq} }
