package views

import (
	"context"
	"math"
	"strings"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/event"
)

type eventQuery struct {
	Types []string `name:"type" help:"only events of this type; repeat it for several types"`
	Tags  []string `name:"tag" help:"only events with this tag; repeat it to require several tags"`
	After int64    `page:"after" help:"only events past this position"`
	limited
}

type entryList struct {
	Status     outbox.Status `among:"entry statuses" help:"only entries with this status"`
	CampaignID string        `name:"campaign" of:"campaign" help:"only this campaign's entries"`
	limited
	After *outbox.Place `page:"after"`
}

type operationList struct {
	State  string              `among:"operation states" help:"only those in this state"`
	Kind   admin.OperationKind `among:"operation kinds" help:"only those of this kind"`
	Before int64               `page:"after" min:"1" help:"only operations before the one with this id"`
	limited
}

type tokenList struct {
	All bool `help:"include revoked and expired tokens"`
}

func eventViews() []*View {
	return []*View{
		list(View{
			Name: "queryEvents", Command: "events query", Path: "/events", Schema: "Event",
			Short: "Show events that have one of the types and all of the tags, as an append condition selects them",
			Examples: []string{
				"events query --type funds_withdrawn --tag wallet=7", "events query --tag wallet=7 --after 1200 --json",
			},
			Empty: "No matching events.",
		}, lists[*eventQuery, event.Event]{
			Read: func(ctx context.Context, from Reader, in *eventQuery) ([]event.Event, any, error) {
				query := event.Query{Items: []event.Item{{Types: in.Types, Tags: in.Tags}}}
				bound := from.events(in.Limit)
				bound.Time = from.Time
				events, until, more, err := feed.ListMatches(ctx, from.Pool, query, in.After+1, bound)
				shown, next, err := from.page(events, more, func(e event.Event) int64 { return e.Position }, err)
				if more && err == nil {
					next = until
				}
				return shown, next, err
			},
			Columns: "POSITION|CAMPAIGN|SEQ|TYPE|TAGS|RECORDED",
			Row: func(e event.Event) []table.Cell {
				return table.Row(e.Position, e.CampaignID, e.Seq, e.Type, strings.Join(e.Tags, " "), e.RecordedAt)
			},
		}),
		list(View{
			Name: "listQueueEntries", Command: "outbox list", Path: "/queue/entries", Schema: "QueueEntry",
			Short: "List the backlog: work items, then failed campaigns",
			Long: "List work items ordered by group, campaign and seq, then failed campaigns ordered by campaign " +
				"and projection. A page of the API may be empty and have a next one.",
			Examples: []string{"outbox list --status failed", "outbox list --campaign oak --limit 10 --json"},
			Empty:    "No matching entries.",
		}, lists[*entryList, outbox.Entry]{
			Read: func(ctx context.Context, from Reader, in *entryList) ([]outbox.Entry, any, error) {
				f := outbox.Filter{Status: in.Status, CampaignID: in.CampaignID, Limit: in.Limit}
				if !from.API {
					entries, err := outbox.List(ctx, from.Pool, f)
					more := func(outbox.Entry) outbox.Place { return outbox.Place{} } // commands have no cursor here
					return entries, nextOf(entries, in.Limit, more), err
				}
				entries, next, err := outbox.Page(ctx, from.Pool, f, in.After)
				return entries, placed(next), err
			},
			Columns: "GROUP|STATUS|CAMPAIGN|SEQ|EVENTS|TYPE|SINCE|PROJECTION|ATTEMPTS|ERROR",
			Row: func(e outbox.Entry) []table.Cell {
				return table.Row(e.Group, statusCell(e.Status), e.CampaignID, e.Seq, e.Events, e.EventType, e.Since,
					e.Projection, e.Attempts, e.Error)
			},
		}),
		list(View{
			Name: "listOperations", Command: "operation list", Path: "/operations", Schema: "Operation",
			Short: "List operations with their progress, newest first",
			Examples: []string{
				"operation list --state running", "operation list --kind requeue --limit 10 --json",
			},
			Empty: "No matching operations.",
		}, lists[*operationList, admin.Operation]{
			Read: func(ctx context.Context, from Reader, in *operationList) ([]admin.Operation, any, error) {
				operations, err := from.Acts.Operations(ctx, admin.OperationFilter{
					State: in.State, Kind: in.Kind, Before: in.Before, Limit: in.Limit,
				})
				return operations, nextOf(operations, in.Limit, func(o admin.Operation) int64 { return o.ID }), err
			},
			Columns: "ID|KIND|STATE|DONE|SKIPPED|FAILED|OF|STARTED|ENDED|BY|REASON",
			Row: func(o admin.Operation) []table.Cell {
				return table.Row(o.ID, o.Kind, OperationState(o), o.Done, o.Skipped, table.Number(o.Failed, table.Warning),
					o.Total, o.CreatedAt, o.EndedAt, o.By, o.Reason)
			},
		}),
		list(View{
			Name: "listTokens", Command: "token list", Path: "/tokens", Schema: "Token", Role: auth.Admin,
			Short:    "List valid tokens",
			Examples: []string{"token list --all"},
			Empty:    "There is no token.",
		}, lists[*tokenList, auth.Token]{
			All: func(ctx context.Context, from Reader, in *tokenList) ([]auth.Token, error) {
				return auth.List(ctx, from.Pool, in.All)
			},
			Columns: "NAME|ROLE|CREATED|BY|EXPIRES|LAST USED|REVOKED",
			Row: func(t auth.Token) []table.Cell {
				return table.Row(t.Name, t.Role, t.CreatedAt, t.CreatedBy, t.ExpiresAt, t.LastUsedAt, t.RevokedAt)
			},
		}),
	}
}

// OperationState returns the state of an operation for display. A requeue or retry counts as done only
// once the retries have succeeded.
func OperationState(o admin.Operation) table.Cell {
	switch {
	case o.State == "failed":
		return table.Toned(o.State, table.Alarm)
	case !o.Kind.Retries() || o.State != "done" || o.Done == 0:
		return table.Text(o.State)
	case o.Since != nil && o.Since.FailedAgain > 0:
		return table.Toned("failed again", table.Warning)
	case o.Since != nil && o.Since.LookedAt > 0 && o.Since.Waiting == 0:
		return table.Text(o.State)
	}
	return table.Text("queued again")
}

// events bounds a list of events: in the API to about 4 MiB of payload and metadata.
func (r Reader) events(limit int) feed.List {
	bound := feed.List{Events: limit, Bytes: math.MaxInt64, Bare: r.Bare}
	if r.API {
		bound.Bytes = 4 << 20
	}
	return bound
}

// page returns events as the reader may see them, and the place of the next page.
func (r Reader) page(
	events []event.Event, more bool, place func(event.Event) int64, err error,
) (shown []event.Event, next any, _ error) {
	for i, e := range events {
		events[i] = r.event(e)
	}
	if more && len(events) > 0 {
		next = place(events[len(events)-1])
	}
	return events, next, err
}
