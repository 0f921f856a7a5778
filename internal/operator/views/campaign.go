package views

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// heldLook is the minimum number of leases searched for held ones.
const heldLook = 1000

// similarCampaigns is how many similar ids an unknown campaign's error names.
const similarCampaigns = 5

type oneCampaign struct {
	CampaignID string `arg:"CAMPAIGN" name:"campaign" of:"campaign" help:"the campaign"`
}

type campaignEvents struct {
	oneCampaign
	After int64 `page:"after" help:"only events after this seq"`
	limited
}

type campaignEvent struct {
	oneCampaign
	Seq int64 `arg:"SEQ" min:"1" help:"the event's place in it"`
}

type leaseList struct {
	Group string `of:"group" required:"true" help:"the consumer group"`
	Held  bool   `help:"only those that a worker holds; a page may be empty and have a next one"`
	After string `page:"after" help:"only leases after this campaign"`
	limited
}

func campaignViews() []*View {
	return []*View{
		one(View{
			Name: "getCampaign", Command: "campaign show", Path: "/campaigns/{campaign}", Schema: "Campaign",
			Short:    "Show a campaign: head, checkpoints, leases, failed projections, pauses, latest failures",
			Examples: []string{"campaign show oak"},
		}, func(ctx context.Context, from Reader, in *oneCampaign) (*Campaign, error) {
			head, err := feed.Head(ctx, from.Pool, in.CampaignID)
			switch {
			case errors.Is(err, event.ErrNotFound):
				return nil, noSuchCampaign(ctx, from, in.CampaignID)
			case err != nil:
				return nil, err
			}
			return ReadCampaign(ctx, from.Pool, head)
		}, showCampaign),
		list(View{
			Name: "listEvents", Path: "/campaigns/{campaign}/events", Schema: "Event",
			Short: "The events of a campaign, in their order",
		}, lists[*campaignEvents, event.Event]{
			Read: func(ctx context.Context, from Reader, in *campaignEvents) ([]event.Event, any, error) {
				events, more, err := feed.ListCampaign(ctx, from.Pool, in.CampaignID, in.After+1, from.events(in.Limit))
				if err == nil && len(events) == 0 { // past its end, or unknown
					_, err = feed.Head(ctx, from.Pool, in.CampaignID)
				}
				return from.page(events, more, func(e event.Event) int64 { return e.Seq }, err)
			},
		}),
		one(View{
			Name: "getEvent", Path: "/campaigns/{campaign}/events/{seq}", Schema: "Event", Short: "One event",
		}, func(ctx context.Context, from Reader, in *campaignEvent) (event.Event, error) {
			e, err := journal.Get(ctx, from.Pool, in.CampaignID, in.Seq)
			return from.event(e), err
		}, nil),
		list(View{
			Name: "listLeases", Path: "/leases", Schema: "Lease",
			Short: "Leases of a group, held or not, in the order of their campaigns",
			Empty: "No matching leases.",
		}, lists[*leaseList, lease.Row]{
			Read: func(ctx context.Context, from Reader, in *leaseList) ([]lease.Row, any, error) {
				size, place := in.Limit, func(l lease.Row) string { return l.CampaignID }
				if in.Held {
					size = max(size, heldLook)
				}
				leases, err := lease.List(ctx, from.Pool, in.Group, in.After, size)
				next := nextOf(leases, size, place)
				if in.Held {
					leases = slices.DeleteFunc(leases, func(l lease.Row) bool { return !l.Held })
				}
				if len(leases) > in.Limit {
					leases = leases[:in.Limit]
					next = nextOf(leases, in.Limit, place)
				}
				return leases, next, err
			},
			Columns: "CAMPAIGN|GROUP|STATE|OWNER|GENERATION|CHECKPOINT|EXPIRES",
			Row: func(l lease.Row) []table.Cell {
				state := "free"
				if l.Held {
					state = "held"
				}
				return table.Row(l.CampaignID, l.Group, state, l.Owner, l.Generation, l.Checkpoint, l.ExpiresAt)
			},
		}),
	}
}

// noSuchCampaign returns an error that names the ids with the longest common prefix.
func noSuchCampaign(ctx context.Context, from Reader, campaignID string) error {
	err := fmt.Errorf("no campaign %q: %w; ids are case-sensitive", campaignID, event.ErrNotFound)
	for prefix := []rune(campaignID); ; prefix = prefix[:len(prefix)/2] {
		near, failure := feed.Campaigns(ctx, from.Pool, string(prefix), "", similarCampaigns)
		switch {
		case failure != nil:
			return errors.Join(err, failure)
		case len(near) > 0:
			err = fmt.Errorf("%w; there are %s", err, strings.Join(near, ", "))
			return &operator.Hinted{Err: err, Then: "campaign show " + table.Quote(near[0])}
		case len(prefix) == 0:
			return fmt.Errorf("%w; the journal is empty", err)
		}
	}
}

func showCampaign(page *table.Page, d *Campaign) {
	page.Facts(
		table.Fact{Name: "campaign", Value: d.CampaignID},
		table.Fact{Name: "head", Value: fmt.Sprintf("event %d, %s, recorded %s, position %d", d.Head.Seq, d.Head.Type,
			table.Stamp(&d.Head.RecordedAt), d.Head.Position)},
	)
	if len(d.Groups) > 0 {
		page.Heading("Consumer groups")
		page.Table([]string{"GROUP", "CHECKPOINT", "BEHIND", "LEASE"}, slice.Of(d.Groups, func(s Standing) []table.Cell {
			return table.Row(s.Group, s.Checkpoint, table.Number(s.Behind, table.Warning), leaseCell(s.Place))
		}))
	}
	Section(page, "Projections that are behind", "listFailed", d.Failed)
	Section(page, "Paused", "listPauses", d.Pauses)
	Section(page, "Left out", "listResolutions", d.Resolutions)
	Section(page, "Log", "listFailedLog", d.History)
}

func leaseCell(l lease.Place) table.Cell {
	switch {
	case l.Generation == 0:
		return table.Cell{Text: "never claimed", Tone: table.Faint}
	case !l.Held && l.ExpiresAt == nil:
		return table.Cell{Text: fmt.Sprintf("free, generation %d", l.Generation), Tone: table.Faint}
	}
	owner := l.Owner
	if l.Host != "" {
		owner += fmt.Sprintf(" (%s, pid %d)", l.Host, l.PID)
	}
	switch {
	case !l.Held:
		return table.Toned(fmt.Sprintf("expired %s, was %s, generation %d", table.Stamp(l.ExpiresAt), owner, l.Generation),
			table.Warning)
	case l.ExpiresAt == nil:
		return table.Text(fmt.Sprintf("%s, generation %d", owner, l.Generation))
	default:
		return table.Text(fmt.Sprintf("%s, generation %d, until %s", owner, l.Generation, table.Stamp(l.ExpiresAt)))
	}
}
