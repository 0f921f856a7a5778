package ndjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// line is the text form of an event.
type line struct {
	CampaignID    string          `json:"campaign_id"`
	ID            *uuid.UUID      `json:"id,omitempty"`
	Type          string          `json:"type"`
	Version       int             `json:"version,omitempty"`
	Intent        journal.Intent  `json:"intent,omitempty"`
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
}

// parse parses the event of a line. It leaves validation of the event to the journal.
func parse(text []byte) (journal.Event, error) {
	if !utf8.Valid(text) {
		return journal.Event{}, errors.New("is not valid UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var l line
	if err := decoder.Decode(&l); err != nil {
		return journal.Event{}, explain(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return journal.Event{}, errors.New("goes on after the event: write one event a line")
	}
	if err := checkTwice(text); err != nil {
		return journal.Event{}, err
	}
	if l.CampaignID == "" {
		return journal.Event{}, errors.New(`has no "campaign_id": every event belongs to a campaign`)
	}
	e := journal.Event{
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
	return e, checkReplaced(text, e)
}

// checkTwice rejects duplicate keys in objects, of which decoders and jsonb take the last one. It
// ignores case in the event's own keys, as the decoder does, but not inside payload and metadata.
func checkTwice(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	twice, err := findTwice(decoder, func(name string) string { return strings.ToLower(strings.ToUpper(name)) })
	switch {
	case err != nil:
		return explain(err)
	case twice != "":
		return fmt.Errorf("has %q twice", strings.TrimPrefix(twice, "."))
	}
	return nil
}

// findTwice reads a value and returns the path of a duplicate key in it, or "". Keys are equal if
// same returns the same string; nested objects compare keys exactly.
func findTwice(decoder *json.Decoder, same func(string) string) (twice string, err error) {
	token, err := decoder.Token()
	opening, ok := token.(json.Delim)
	if err != nil || !ok {
		return "", err
	}
	seen := map[string]bool{}
	for i := 0; decoder.More(); i++ {
		name := ""
		if opening == '{' {
			key, err := decoder.Token()
			if err != nil {
				return "", err
			}
			name, _ = key.(string)
			if seen[same(name)] {
				return "." + name, nil
			}
			seen[same(name)] = true
		}
		if twice, err := findTwice(decoder, asItIs); err != nil {
			return "", err
		} else if twice != "" && opening == '{' {
			return "." + name + twice, nil
		} else if twice != "" {
			return fmt.Sprintf("[%d]%s", i, twice), nil
		}
	}
	_, err = decoder.Token() // the closing delimiter
	return "", err
}

func asItIs(name string) string { return name }

// explain rewrites an error of encoding/json as text about a line.
func explain(err error) error {
	var (
		mistyped *json.UnmarshalTypeError
		syntax   *json.SyntaxError
	)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("is JSON that breaks off")
	case errors.As(err, &mistyped) && mistyped.Field == "":
		return fmt.Errorf("is a JSON %s, it must be an object", mistyped.Value)
	case errors.As(err, &mistyped):
		return fmt.Errorf("has a JSON %s as %q", mistyped.Value, mistyped.Field)
	case errors.As(err, &syntax):
		return fmt.Errorf("is no JSON: %w at byte %d", err, syntax.Offset)
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

// present returns nil for null.
func present(value json.RawMessage) json.RawMessage {
	if string(value) == "null" {
		return nil
	}
	return value
}

// checkReplaced rejects half surrogate pairs in names. The decoder turns them into the replacement
// character; if the text does not contain that character, it came from half a pair. The journal
// checks payload and metadata, which are not decoded here.
func checkReplaced(text []byte, e journal.Event) error {
	const replacement = string(utf8.RuneError)
	names := append([]string{e.CampaignID, e.Type, e.AggregateType, e.AggregateID, e.Actor}, e.Tags...)
	if !slices.ContainsFunc(names, func(s string) bool { return strings.Contains(s, replacement) }) {
		return nil
	}
	if bytes.Contains(text, []byte(replacement)) || bytes.Contains(bytes.ToLower(text), []byte(`\ufffd`)) {
		return nil
	}
	return errors.New(`has half of a surrogate pair (\ud800 to \udfff) in a name`)
}

func format(encoder *json.Encoder, e journal.Event) error {
	l := line{
		CampaignID: e.CampaignID, ID: &e.ID, Type: e.Type, Version: e.Version, Intent: e.Intent,
		AggregateType: e.AggregateType,
		AggregateID:   e.AggregateID, Actor: e.Actor, Tags: e.Tags, Payload: e.Payload, Metadata: e.Metadata,
	}
	at := e.OccurredAt.UTC()
	l.OccurredAt = &at
	return encoder.Encode(l)
}

// derivedID returns the id for a line without one: a UUIDv5.
func derivedID(source string, number int64, text []byte) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "tidemark:events/%s\x00%d\x00%s", source, number, text))
}
