package archive

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/text"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// ErrObject is returned for an object that is missing or was changed. The text names it.
var ErrObject = feed.ErrObject

// object is the content of an object in memory.
type object struct {
	name      string
	sha256    [sha256.Size]byte
	size      int
	campaigns []string
	text      []byte            // all lines
	lines     map[string][]byte // by campaign, in the order of seq
}

// line is an event in an object. tidemark.archive_lines makes it.
type line struct {
	CampaignID    string          `json:"campaign_id"`
	ID            uuid.UUID       `json:"id"`
	Type          string          `json:"type"`
	Version       int             `json:"version"`
	Intent        event.Intent    `json:"intent"`
	AggregateType string          `json:"aggregate_type"`
	AggregateID   string          `json:"aggregate_id"`
	Actor         string          `json:"actor"`
	Tags          []string        `json:"tags"`
	Payload       json.RawMessage `json:"payload"`
	Metadata      json.RawMessage `json:"metadata"`
	OccurredAt    time.Time       `json:"occurred_at"`
	Seq           int64           `json:"seq"`
	Position      int64           `json:"position"`
	RecordedAt    time.Time       `json:"recorded_at"`
}

// compress returns the object of lines. The same lines give the same object.
func compress(lines []byte) (name string, content []byte) {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // the level is valid
	_, _ = w.Write(lines)                           // a buffer takes all
	_ = w.Close()
	sum := sha256.Sum256(b.Bytes())
	return "events-" + hex.EncodeToString(sum[:16]) + ".ndjson.gz", b.Bytes()
}

// load reads an object and checks its size and hash.
func load(ctx context.Context, store Store, s event.Stub) (*object, error) {
	return loadOr(ctx, store, s, "put it back, from a copy of the archive")
}

// loadOr is load with the remedy for an object that is missing or was changed.
func loadOr(ctx context.Context, store Store, s event.Stub, remedy string) (*object, error) {
	name, hash := s.Object, s.SHA256
	if s.Bytes < 1 || s.Bytes > MostBytes {
		return nil, fmt.Errorf("%w: %s has %d bytes in the manifest, the limit is %d", ErrObject, name, s.Bytes, MostBytes)
	}
	content, err := store.Get(ctx, name, s.Bytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %s is missing: %s", ErrObject, name, remedy)
	case errors.Is(err, ErrObject):
		return nil, fmt.Errorf("%s: %w: %s", name, err, remedy)
	case err != nil:
		return nil, fmt.Errorf("read %s from the archive: %w", name, err)
	}
	o := &object{name: name, size: len(content), sha256: sha256.Sum256(content), lines: map[string][]byte{}}
	if got := hex.EncodeToString(o.sha256[:]); got != hash {
		return nil, fmt.Errorf("%w: %s has the SHA-256 %s, it was written with %s: %s", ErrObject, name, got, hash, remedy)
	}
	if err := o.index(content); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrObject, name, err)
	}
	return o, nil
}

// index finds the campaigns' lines.
func (o *object) index(content []byte) error {
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return err
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	o.text = text
	var before []byte // the beginning of the lines of a campaign
	start := 0
	for at := 0; at < len(text); {
		rest := text[at:]
		end := bytes.IndexByte(rest, '\n') + 1
		if before == nil || !bytes.HasPrefix(rest, before) {
			id, first, err := campaignOf(rest)
			if err != nil {
				return fmt.Errorf("byte %d: %w", at, err)
			}
			if before != nil {
				o.add(text[start:at])
			}
			o.campaigns = append(o.campaigns, id)
			before, start = first, at
		}
		if end == 0 {
			return fmt.Errorf("the line at byte %d has no end", at)
		}
		at += end
	}
	if before != nil {
		o.add(text[start:])
	}
	if len(o.lines) != len(o.campaigns) {
		return errors.New("a campaign is there twice")
	}
	return nil
}

func (o *object) add(lines []byte) { o.lines[o.campaigns[len(o.campaigns)-1]] = lines }

// campaignOf returns the campaign of the first line of text, and what all lines of it begin with.
func campaignOf(text []byte) (id string, first []byte, err error) {
	const start = `{"campaign_id":`
	if !bytes.HasPrefix(text, []byte(start)) {
		return "", nil, errors.New("the line does not begin with a campaign")
	}
	d := json.NewDecoder(bytes.NewReader(text[len(start):]))
	if err := d.Decode(&id); err != nil {
		return "", nil, err
	}
	return id, text[:len(start)+int(d.InputOffset())+len(",")], nil
}

// events returns how many events campaigns have.
func (o *object) events(ids []string) (n int64) {
	for _, id := range ids {
		n += int64(bytes.Count(o.lines[id], []byte("\n")))
	}
	return n
}

// read visits the events of a campaign after a seq, up to another, until visit returns false.
func (o *object) read(campaign string, after, until int64, visit func(*event.Event) bool) error {
	for rest := o.lines[campaign]; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n') + 1
		var l line
		if err := json.Unmarshal(rest[:end], &l); err != nil {
			return fmt.Errorf("%w: %s: an event of campaign %s: %w", ErrObject, o.name, text.Shortened(campaign), err)
		}
		rest = rest[end:]
		if l.Seq <= after {
			continue
		}
		if l.Seq > until {
			break
		}
		if !visit(l.event()) {
			break
		}
	}
	return nil
}

func (l *line) event() *event.Event {
	e := &event.Event{
		ID: l.ID, Type: l.Type, Version: l.Version, Intent: l.Intent, AggregateType: l.AggregateType,
		AggregateID: l.AggregateID, Actor: l.Actor, Tags: l.Tags, Payload: l.Payload, Metadata: l.Metadata,
		OccurredAt: l.OccurredAt.Local(), CampaignID: l.CampaignID, Seq: l.Seq, Position: l.Position,
		RecordedAt: l.RecordedAt.Local(),
	}
	if string(l.Metadata) == "null" {
		e.Metadata = nil
	}
	feed.ForgetDecoded(e)
	return e
}
