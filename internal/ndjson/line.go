package ndjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	strict "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/pkg/event"
)

// line is the text form of an event.
type line struct {
	CampaignID    string          `json:"campaign_id"`
	ID            *uuid.UUID      `json:"id,omitempty"`
	Type          string          `json:"type"`
	Version       int             `json:"version,omitempty"`
	Intent        event.Intent    `json:"intent,omitempty"`
	AggregateType string          `json:"aggregate_type,omitempty"`
	AggregateID   string          `json:"aggregate_id,omitempty"`
	Actor         string          `json:"actor,omitempty"`
	Tags          []string        `json:"tags,omitempty"`
	Payload       json.RawMessage `json:"payload,omitempty"`
	Metadata      json.RawMessage `json:"metadata,omitempty"`
	OccurredAt    *time.Time      `json:"occurred_at,omitempty"`

	// Assigned by the journal: ignored on reading, never written.
	Seq        json.RawMessage `json:"seq,omitempty"`
	Position   json.RawMessage `json:"position,omitempty"`
	RecordedAt json.RawMessage `json:"recorded_at,omitempty"`

	PayloadBytes json.RawMessage `json:"payload_bytes,omitempty"` // in archives
}

// parse parses the event of a line. It rejects what decoders usually accept in silence: duplicate
// and unknown names, invalid UTF-8, half surrogate pairs. The journal validates the event.
func parse(text []byte) (event.Event, error) {
	var l line
	if err := strict.Unmarshal(text, &l, strict.RejectUnknownMembers(true)); err != nil {
		return event.Event{}, explain(err)
	}
	if l.CampaignID == "" {
		return event.Event{}, errors.New(`has no "campaign_id": every event belongs to a campaign`)
	}
	e := event.Event{
		CampaignID: l.CampaignID, Type: l.Type, Version: l.Version, Intent: l.Intent, AggregateType: l.AggregateType,
		AggregateID: l.AggregateID,
		Actor:       l.Actor, Tags: l.Tags, Payload: present(l.Payload), Metadata: present(l.Metadata),
	}
	if l.ID != nil {
		e.ID = *l.ID
	}
	if l.OccurredAt != nil {
		e.OccurredAt = *l.OccurredAt
	}
	return e, nil
}

// explain rewrites an error of the decoder as text about a line.
func explain(err error) error {
	var syntax *jsontext.SyntacticError
	var meaning *strict.SemanticError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("is incomplete JSON")
	case errors.As(err, &syntax) && errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Errorf("has %s twice", syntax.JSONPointer)
	case errors.As(err, &syntax):
		return fmt.Errorf("is not JSON: %w at byte %d", syntax.Err, syntax.ByteOffset)
	case !errors.As(err, &meaning):
		return err
	case errors.Is(err, strict.ErrUnknownName):
		return fmt.Errorf("has an unknown field %q", meaning.JSONPointer.LastToken())
	case meaning.JSONPointer == "":
		return errors.New("is not a JSON object")
	case meaning.Err != nil:
		return fmt.Errorf("has a wrong %q: %w", meaning.JSONPointer.LastToken(), meaning.Err)
	}
	return fmt.Errorf("has a JSON %s as %q", meaning.JSONKind, meaning.JSONPointer.LastToken())
}

func present(value json.RawMessage) json.RawMessage {
	if string(value) == "null" {
		return nil
	}
	return value
}

func format(encoder *json.Encoder, e event.Event) error {
	l := line{
		CampaignID: e.CampaignID, ID: &e.ID, Type: e.Type, Version: e.Version, Intent: e.Intent,
		AggregateType: e.AggregateType, AggregateID: e.AggregateID, Actor: e.Actor, Tags: e.Tags,
		Payload: e.Payload, Metadata: e.Metadata, OccurredAt: new(e.OccurredAt.UTC()),
	}
	return encoder.Encode(l)
}

// derivedID returns the id for a line without one: a UUIDv5.
func derivedID(source string, number int64, text []byte) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "tidemark:events/%s\x00%d\x00%s", source, number, text))
}
