package main

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// These change when a field of their documents goes or changes its meaning.
const (
	publicationsVersion = 1
	publicationVersion  = 1
	parkedVersion       = 1
	oneParkedVersion    = 1
	operatorLogVersion  = 1
)

type publicationsJSON struct {
	Version      int               `json:"version"`
	Publications []publicationJSON `json:"publications"`
}

type publicationJSON struct {
	Topic           string     `json:"topic"`
	Publisher       string     `json:"publisher"`
	Status          string     `json:"status"`
	Position        int64      `json:"position"`
	Events          int64      `json:"events"`  // behind, before the topic's filter
	Exact           bool       `json:"exact"`   // false: events is the distance in positions
	Seconds         float64    `json:"seconds"` // since the first of them was recorded
	Errors          int        `json:"errors"`
	LastError       *string    `json:"last_error"`
	LastErrorAt     *time.Time `json:"last_error_at"`
	FailingSince    *time.Time `json:"failing_since"`
	NextAttemptAt   *time.Time `json:"next_attempt_at"`
	Parked          int64      `json:"parked"`
	Retrying        int64      `json:"retrying"`
	Reason          *string    `json:"reason"`
	By              *string    `json:"by"`
	PausedUntil     *time.Time `json:"paused_until"` // null: until it is resumed
	Published       int64      `json:"published"`
	LastPublishedAt *time.Time `json:"last_published_at"`
	Holder          *string    `json:"holder"`
	Generation      int64      `json:"generation"`
	CreatedAt       time.Time  `json:"created_at"`
	Ghosts          int64      `json:"ghosts"` // events sent that the journal has no more
	GhostsAt        *time.Time `json:"ghosts_at"`
}

// publisherDetailJSON is all that is known of the pairs of one publisher.
type publisherDetailJSON struct {
	Version      int                  `json:"version"`
	Publications []publicationJSON    `json:"publications"`
	Parked       []parkedJSON         `json:"parked"` // the first ones
	Log          []operatorRecordJSON `json:"log"`    // the last ones, newest first
}

type parkedListJSON struct {
	Version int          `json:"version"`
	Parked  []parkedJSON `json:"parked"`
}

type parkedJSON struct {
	Topic         string     `json:"topic"`
	Publisher     string     `json:"publisher"`
	CampaignID    string     `json:"campaign_id"`
	Seq           int64      `json:"seq"`
	Holds         bool       `json:"holds"` // the campaign waits
	Position      int64      `json:"position"`
	Status        string     `json:"status"`
	Attempts      int        `json:"attempts"`
	NextAttemptAt *time.Time `json:"next_attempt_at"` // null: when an operator says so
	EventID       *uuid.UUID `json:"event_id"`        // from here on null where nothing was refused
	EventType     *string    `json:"event_type"`
	Message       *string    `json:"message"`
	FirstFailedAt *time.Time `json:"first_failed_at"`
	LastFailedAt  *time.Time `json:"last_failed_at"`
}

// oneParkedJSON is all that is known of one event that was refused.
type oneParkedJSON struct {
	Version int                  `json:"version"`
	Parked  []parkedJSON         `json:"parked"` // one for each pair whose sink has refused it
	Event   eventJSON            `json:"event"`
	Log     []operatorRecordJSON `json:"log"` // of the campaign
}

type operatorLogJSON struct {
	Version int                  `json:"version"`
	Records []operatorRecordJSON `json:"records"`
}

type operatorRecordJSON struct {
	ID         int64           `json:"id"`
	At         time.Time       `json:"at"`
	Act        string          `json:"act"`
	By         string          `json:"by"`
	Reason     *string         `json:"reason"`
	Topic      *string         `json:"topic"`
	Publisher  *string         `json:"publisher"`
	CampaignID *string         `json:"campaign_id"`
	Seq        *int64          `json:"seq"`
	Detail     json.RawMessage `json:"detail"`

	Way          *string `json:"way"`           // "cli", "api" or "page"; null: by a program
	TokenID      *int64  `json:"token_id"`      // null: without a token
	Address      *string `json:"address"`       // of the client of the API or a page
	DatabaseUser string  `json:"database_user"` // that was logged in to the database
}

func publicationDocuments(list []publisher.Publication) []publicationJSON {
	documents := []publicationJSON{}
	for _, p := range list {
		documents = append(documents, publicationJSON{
			Topic: p.Topic, Publisher: p.Publisher, Status: p.Status, Position: p.Position, Events: p.Behind, Exact: p.Behind <= publisher.CountedBehind, Seconds: p.Lag.Seconds(),
			Errors: p.Errors, LastError: present(p.LastError), LastErrorAt: utc(p.LastErrorAt),
			FailingSince: utc(p.FailingSince), Ghosts: p.Ghosts, GhostsAt: utc(p.GhostsAt), NextAttemptAt: utc(p.NextAttemptAt), Parked: p.Parked, Retrying: p.Retrying,
			Reason: present(p.Reason), By: present(p.Actor), PausedUntil: utc(p.PausedUntil), Published: p.Published, LastPublishedAt: utc(p.LastPublishedAt),
			Holder: present(p.Holder), Generation: p.Generation, CreatedAt: p.CreatedAt.UTC(),
		})
	}
	return documents
}

func parkedDocuments(list []publisher.Parked) []parkedJSON {
	documents := []parkedJSON{}
	for _, p := range list {
		document := parkedJSON{
			Topic: p.Topic, Publisher: p.Publisher, CampaignID: p.CampaignID, Seq: p.Seq, Holds: p.Holds, Position: p.Position, Status: p.Status, Attempts: p.Attempts,
			EventID: p.EventID, EventType: present(p.EventType), Message: present(p.Message), FirstFailedAt: utc(p.FirstFailedAt), LastFailedAt: utc(p.LastFailedAt),
		}
		if p.Status != statusParked {
			document.NextAttemptAt = utc(&p.NextAttemptAt)
		}
		documents = append(documents, document)
	}
	return documents
}

func operatorDocuments(records []publisher.Record) []operatorRecordJSON {
	documents := []operatorRecordJSON{}
	for _, r := range records {
		documents = append(documents, operatorRecordJSON{
			ID: r.ID, At: r.At.UTC(), Act: r.Act, By: r.Actor, Reason: present(r.Reason), Topic: present(r.Topic), Publisher: present(r.Publisher),
			CampaignID: present(r.CampaignID), Seq: present(r.Seq), Detail: r.Detail,
			Way: present(r.Way), TokenID: present(r.TokenID), Address: present(r.Address), DatabaseUser: r.DatabaseUser,
		})
	}
	return documents
}
