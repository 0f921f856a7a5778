package main

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/pkg/deferred"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// These change when a field of their documents goes or changes its meaning.
const (
	pairsVersion   = 1
	pairVersion    = 1
	recordsVersion = 1
)

type pairsJSON struct {
	Version int        `json:"version"`
	Pairs   []pairJSON `json:"pairs"`
}

type pairJSON struct {
	Projection        string     `json:"projection"`
	CampaignID        string     `json:"campaign_id"`
	Group             string     `json:"group"`
	Status            string     `json:"status"`
	NextSeq           int64      `json:"next_seq"`
	Attempts          int        `json:"attempts"`
	NextAttemptAt     *time.Time `json:"next_attempt_at"` // null: when an operator says so
	Reset             bool       `json:"reset"`
	SecondChances     int        `json:"second_chances"`
	ProjectionVersion *int       `json:"projection_version"`
	EventID           *uuid.UUID `json:"event_id"` // from here on null where the pair has not failed
	EventType         *string    `json:"event_type"`
	Class             *string    `json:"class"`
	Code              *string    `json:"code"`
	Message           *string    `json:"message"`
	Fingerprint       *string    `json:"fingerprint"`
	FirstFailedAt     *time.Time `json:"first_failed_at"`
	LastFailedAt      *time.Time `json:"last_failed_at"`
	Worker            *string    `json:"worker"`
}

// detailJSON is all that is known of one pair.
type detailJSON struct {
	Version int          `json:"version"`
	Pair    pairJSON     `json:"pair"`
	Stack   *string      `json:"stack"`
	Event   *eventJSON   `json:"event"` // null: there is none yet
	History []recordJSON `json:"history"`

	Resolutions []resolutionJSON `json:"resolutions"` // events that are left out
}

// eventJSON has the fields of a line of events export, and its place.
type eventJSON struct {
	CampaignID    string          `json:"campaign_id"`
	Seq           int64           `json:"seq"`
	Position      int64           `json:"position"`
	ID            uuid.UUID       `json:"id"`
	Type          string          `json:"type"`
	Version       int             `json:"version"`
	Intent        journal.Intent  `json:"intent"`
	AggregateType string          `json:"aggregate_type,omitempty"`
	AggregateID   string          `json:"aggregate_id,omitempty"`
	Actor         string          `json:"actor,omitempty"`
	Tags          []string        `json:"tags,omitempty"`
	Payload       json.RawMessage `json:"payload,omitempty"`
	Metadata      json.RawMessage `json:"metadata,omitempty"`
	OccurredAt    time.Time       `json:"occurred_at"`
	RecordedAt    time.Time       `json:"recorded_at"`
}

type recordsJSON struct {
	Version int          `json:"version"`
	Records []recordJSON `json:"records"`
}

type recordJSON struct {
	ID                int64      `json:"id"`
	At                time.Time  `json:"at"`
	Act               string     `json:"act"`
	Group             string     `json:"group"`
	Projection        *string    `json:"projection"`
	ProjectionVersion *int       `json:"projection_version"`
	CampaignID        *string    `json:"campaign_id"`
	Seq               *int64     `json:"seq"`
	EventID           *uuid.UUID `json:"event_id"`
	EventType         *string    `json:"event_type"`
	Attempt           *int       `json:"attempt"`
	Class             *string    `json:"class"`
	Code              *string    `json:"code"`
	Message           *string    `json:"message"`
	Stack             *string    `json:"stack"`
	Fingerprint       *string    `json:"fingerprint"`
	Worker            *string    `json:"worker"`
	By                *string    `json:"by"`
	Reason            *string    `json:"reason"`
}

// present is nil for a zero value: what is not there is null.
func present[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// utc answers a time as documents have it.
func utc(at *time.Time) *time.Time {
	if at == nil || at.IsZero() {
		return nil
	}
	t := at.UTC()
	return &t
}

func pairDocuments(list []deferred.Pair) []pairJSON {
	documents := []pairJSON{}
	for _, p := range list {
		documents = append(documents, pairDocument(p))
	}
	return documents
}

func pairDocument(p deferred.Pair) pairJSON {
	return pairJSON{
		Projection: p.Projection, CampaignID: p.CampaignID, Group: p.Group, Status: string(p.Status), NextSeq: p.NextSeq, Attempts: p.Attempts,
		NextAttemptAt: utc(&p.NextAttemptAt), Reset: p.Reset, SecondChances: p.SecondChances, ProjectionVersion: present(p.Version), EventID: p.EventID,
		EventType: present(p.EventType), Class: present(p.Class), Code: present(p.Code), Message: present(p.Message), Fingerprint: present(p.Fingerprint),
		FirstFailedAt: utc(p.FirstFailedAt), LastFailedAt: utc(p.LastFailedAt), Worker: present(p.Worker),
	}
}

func detailDocument(d *deferred.Detail) detailJSON {
	document := detailJSON{Version: pairVersion, Pair: pairDocument(d.Pair), Stack: present(d.Stack), History: recordDocuments(d.History), Resolutions: resolutionDocuments(d.Resolutions)}
	if d.Event != nil {
		event := eventDocument(*d.Event)
		document.Event = &event
	}
	return document
}

func eventDocument(e journal.Event) eventJSON {
	return eventJSON{
		CampaignID: e.CampaignID, Seq: e.Seq, Position: e.Position, ID: e.ID, Type: e.Type, Version: e.Version, Intent: e.Intent, AggregateType: e.AggregateType,
		AggregateID: e.AggregateID, Actor: e.Actor, Tags: e.Tags, Payload: e.Payload, Metadata: e.Metadata, OccurredAt: e.OccurredAt.UTC(), RecordedAt: e.RecordedAt.UTC(),
	}
}

func recordDocuments(records []deferred.Record) []recordJSON {
	documents := []recordJSON{}
	for _, r := range records {
		documents = append(documents, recordJSON{
			ID: r.ID, At: r.At.UTC(), Act: r.Act, Group: r.Group, Projection: present(r.Projection), ProjectionVersion: present(r.Version), CampaignID: present(r.CampaignID),
			Seq: present(r.Seq), EventID: r.EventID, EventType: present(r.EventType), Attempt: present(r.Attempt), Class: present(r.Class), Code: present(r.Code),
			Message: present(r.Message), Stack: present(r.Stack), Fingerprint: present(r.Fingerprint), Worker: present(r.Worker), By: present(r.Actor), Reason: present(r.Reason),
		})
	}
	return documents
}
