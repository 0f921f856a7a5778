package main

import (
	"time"

	"github.com/tidemark-go/tidemark/pkg/outbox"
)

// reportVersion and listVersion change when a field goes or changes its meaning.
const (
	reportVersion = 1
	listVersion   = 1
)

type reportJSON struct {
	Version int         `json:"version"`
	Groups  []groupJSON `json:"groups"`
	Entries []entryJSON `json:"entries,omitzero"` // absent unless they were asked for
}

type groupJSON struct {
	Group            string     `json:"group"`
	Pending          int64      `json:"pending"`
	Processing       int64      `json:"processing"`
	Failed           int64      `json:"failed"`
	Dead             int64      `json:"dead"`
	Rebuilding       int64      `json:"rebuilding"`
	Paused           int64      `json:"paused"`
	Estimated        bool       `json:"estimated"` // there is too much to count
	Pauses           int64      `json:"pauses"`    // of the group, its projections, campaigns
	Oldest           *entryJSON `json:"oldest"`    // null: none a worker could take
	OldestAgeSeconds float64    `json:"oldest_age_seconds"`
}

type listJSON struct {
	Version int         `json:"version"`
	Entries []entryJSON `json:"entries"`
}

type entryJSON struct {
	Group         string     `json:"group"`
	CampaignID    string     `json:"campaign_id"`
	Seq           int64      `json:"seq"`
	Events        int64      `json:"events"` // that wait from seq on; 0 of a pair
	EventType     string     `json:"event_type"`
	Status        string     `json:"status"`
	Projection    *string    `json:"projection"` // null: a work item of the group
	Since         time.Time  `json:"since"`
	Attempts      int        `json:"attempts"`
	NextAttemptAt *time.Time `json:"next_attempt_at"` // null: not tried again by itself
	Error         *string    `json:"error"`
}

func reportDocument(r report) reportJSON {
	document := reportJSON{Version: reportVersion, Groups: []groupJSON{}}
	for _, g := range r.groups {
		group := groupJSON{
			Group: g.Group, Pending: g.Pending, Processing: g.Processing, Paused: g.Paused, Failed: g.Failed, Dead: g.Dead, Rebuilding: g.Rebuilding, Pauses: r.pauses[g.Group],
			Estimated: g.Estimated,
		}
		if g.Oldest != nil {
			entry := entryDocument(*g.Oldest)
			group.Oldest = &entry
			group.OldestAgeSeconds = g.At.Sub(g.Oldest.Since).Seconds()
		}
		document.Groups = append(document.Groups, group)
	}
	if r.withEntries {
		document.Entries = entryDocuments(r.entries)
	}
	return document
}

func entryDocuments(entries []outbox.Entry) []entryJSON {
	documents := []entryJSON{}
	for _, e := range entries {
		documents = append(documents, entryDocument(e))
	}
	return documents
}

func entryDocument(e outbox.Entry) entryJSON {
	entry := entryJSON{
		Group: e.Group, CampaignID: e.CampaignID, Seq: e.Seq, Events: e.Events, EventType: e.EventType, Status: string(e.Status), Since: e.Since.UTC(), Attempts: e.Attempts,
	}
	if e.Projection != "" {
		entry.Projection = &e.Projection
	}
	if !e.NextAttemptAt.IsZero() {
		at := e.NextAttemptAt.UTC()
		entry.NextAttemptAt = &at
	}
	if e.Error != "" {
		entry.Error = &e.Error
	}
	return entry
}
