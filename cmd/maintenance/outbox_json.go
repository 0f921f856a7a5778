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
}

type groupJSON struct {
	Group            string     `json:"group"`
	Pending          int64      `json:"pending"`
	Processing       int64      `json:"processing"`
	Failed           int64      `json:"failed"`
	Dead             int64      `json:"dead"`
	Rebuilding       int64      `json:"rebuilding"`
	Oldest           *entryJSON `json:"oldest"` // null: none a worker could take
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
	EventType     string     `json:"event_type"`
	Status        string     `json:"status"`
	Projection    *string    `json:"projection"` // null: a work item of the group
	Since         time.Time  `json:"since"`
	Attempts      int        `json:"attempts"`
	NextAttemptAt *time.Time `json:"next_attempt_at"` // null: not tried again by itself
	Error         *string    `json:"error"`
}

func reportDocument(groups []outbox.GroupReport) reportJSON {
	document := reportJSON{Version: reportVersion, Groups: []groupJSON{}}
	for _, g := range groups {
		group := groupJSON{
			Group: g.Group, Pending: g.Pending, Processing: g.Processing, Failed: g.Failed, Dead: g.Dead, Rebuilding: g.Rebuilding,
		}
		if g.Oldest != nil {
			entry := entryDocument(*g.Oldest)
			group.Oldest = &entry
			group.OldestAgeSeconds = g.At.Sub(g.Oldest.Since).Seconds()
		}
		document.Groups = append(document.Groups, group)
	}
	return document
}

func listDocument(entries []outbox.Entry) listJSON {
	document := listJSON{Version: listVersion, Entries: []entryJSON{}}
	for _, e := range entries {
		document.Entries = append(document.Entries, entryDocument(e))
	}
	return document
}

func entryDocument(e outbox.Entry) entryJSON {
	entry := entryJSON{
		Group: e.Group, CampaignID: e.CampaignID, Seq: e.Seq, EventType: e.EventType, Status: string(e.Status), Since: e.Since.UTC(), Attempts: e.Attempts,
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
