package views

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// publisherShown is the maximum number of parked events and acts shown.
const publisherShown = 10

// publisherState has pairs of a publisher with their parked events and log.
type publisherState struct {
	Publications []publications.Publication
	Parked       []publications.Parked
	Log          []publications.Record
}

type parkedChoice struct {
	CampaignID string `name:"campaign" of:"parked" required:"true" help:"the event's campaign"`
	Seq        int64  `min:"1" required:"true" help:"the event's seq"`
	Topic      string `of:"topic" help:"only as an event of this topic"`
	Publisher  string `of:"publisher" help:"only as refused by this publisher's sink"`
}

// parkedState is an event that one publisher or several have refused.
type parkedState struct {
	Parked []publications.Parked
	Event  event.Event
	Log    []publications.Record
}

// publisherShows has views that only the command line has. They show what several API calls return.
func publisherShows() []*View {
	return []*View{
		one(View{
			Name: "showPublisher", Command: "publisher show",
			Short:    "Show a publisher: its topics, last errors, parked events and log",
			Examples: []string{"publisher show archive"},
		}, readPublisher, showPublisher),
		one(View{
			Name: "showParked", Command: "publisher parked show",
			Short:    "Show a refused event: which publisher, why, the payload, the log",
			Examples: []string{"publisher parked show --campaign oak --seq 2"},
		}, readParked, showParked),
	}
}

func readPublisher(ctx context.Context, from Reader, in *publication) (s publisherState, err error) {
	if s.Publications, err = in.find(ctx, from); err != nil {
		return s, err
	}
	s.Parked, err = publications.ListParked(ctx, from.Pool,
		publications.ParkedFilter{Topic: in.Topic, Publisher: in.Publisher, Limit: publisherShown})
	if err != nil {
		return s, err
	}
	s.Log, err = publications.Log(ctx, from.Pool,
		publications.LogFilter{Topic: in.Topic, Publisher: in.Publisher, Limit: publisherShown})
	return s, err
}

func showPublisher(page *table.Page, s publisherState) {
	for _, p := range s.Publications {
		page.Heading(p.String())
		page.Facts(publicationFacts(p)...)
	}
	Section(page, "Parked", "listParked", s.Parked)
	Section(page, "Log", "listLog", s.Log)
}

func publicationFacts(p publications.Publication) []table.Fact {
	lag := "nothing"
	if p.Behind > 0 {
		lag = fmt.Sprintf("%s, the oldest from %s ago",
			strings.Replace(table.Count(p.Behind, "event"), fmt.Sprint(p.Behind),
				table.About(p.Behind, p.Estimated, table.Plain).Text, 1), table.Age(p.Lag))
	}
	facts := []table.Fact{
		{Name: "status", Value: publisherStatus(p).Text, Tone: publisherStatus(p).Tone},
		{Name: "why", Value: publisherProblem(p)},
		{Name: "position", Value: fmt.Sprint(p.Position)},
		{Name: "behind", Value: lag},
		{
			Name:  "published",
			Value: fmt.Sprintf("%s, last at %s", table.Count(p.Published, "event"), table.Stamp(p.LastPublishedAt)),
		},
		{
			Name:  "parked",
			Value: fmt.Sprintf("%s, %d retried or catching up", counted(p.Parked, p.ManyParked(), table.Alarm).Text, p.Retrying),
		},
		{Name: "held by", Value: cmp.Or(p.Holder, "none")},
	}
	if p.Errors > 0 {
		facts = append(facts,
			table.Fact{Name: "errors", Value: fmt.Sprintf("%d in a row since %s, last at %s, next attempt at %s", p.Errors,
				table.Stamp(p.FailingSince), table.Stamp(p.LastErrorAt), table.Stamp(p.NextAttemptAt))},
			table.Fact{Name: "last error", Value: p.LastError})
	}
	if p.Ghosts > 0 {
		facts = append(facts, table.Fact{
			Name: "ghosts", Tone: table.Warning,
			Value: fmt.Sprintf("%s sent but missing from the journal, found at %s: tidemark publisher ghosts %s",
				table.Count(p.Ghosts, "event"), table.Stamp(p.GhostsAt), p.Publisher),
		})
	}
	return facts
}

func readParked(ctx context.Context, from Reader, in *parkedChoice) (s parkedState, err error) {
	s.Parked, err = publications.ListParked(ctx, from.Pool, publications.ParkedFilter{
		Topic: in.Topic, Publisher: in.Publisher, CampaignID: in.CampaignID, Seq: in.Seq,
	})
	if err == nil && len(s.Parked) == 0 {
		err = &operator.Hinted{
			Err:  fmt.Errorf("event %d of campaign %q is not parked: %w", in.Seq, in.CampaignID, publications.ErrNotFound),
			Then: "publisher parked list --campaign " + table.Quote(in.CampaignID),
		}
	}
	if err != nil {
		return s, err
	}
	e, err := journal.Get(ctx, from.Pool, in.CampaignID, in.Seq)
	if err != nil && !errors.Is(err, event.ErrUnreadable) {
		return s, err
	}
	s.Event = from.event(e)
	s.Log, err = publications.Log(ctx, from.Pool, publications.LogFilter{CampaignID: in.CampaignID, Limit: publisherShown})
	return s, err
}

func showParked(page *table.Page, d parkedState) {
	for _, p := range d.Parked {
		page.Heading(publications.Key{Topic: p.Topic, Publisher: p.Publisher}.String())
		next, waits := p.NextAttemptAt.UTC().Format(time.RFC3339), "left out; the campaign continues"
		if p.Status == "parked" {
			next = "waits for an operator: retry or resolve"
		}
		if p.Holds {
			waits = "waits behind it"
		}
		page.Facts(
			table.Fact{Name: "status", Value: p.Status, Tone: statusCell(p.Status).Tone},
			table.Fact{Name: "its campaign", Value: waits},
			table.Fact{Name: "attempts", Value: fmt.Sprint(p.Attempts)},
			table.Fact{Name: "next attempt", Value: next},
			table.Fact{Name: "first, last", Value: table.Stamp(p.FirstFailedAt) + ", " + table.Stamp(p.LastFailedAt)},
			table.Fact{Name: "message", Value: p.Message},
		)
	}
	e := d.Event
	page.Heading(fmt.Sprintf("Event %d of campaign %s", e.Seq, e.CampaignID))
	page.Facts(eventFacts(e)...)
	if unreadable := e.Unreadable(); unreadable != nil {
		page.Text(unreadable.Error())
	} else {
		page.JSON(e.Payload)
	}
	Section(page, "Log", "listLog", d.Log)
}
