package views

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/lookback"
)

type limited struct {
	Limit int `page:"limit" min:"1" default:"100" help:"maximum number of items"`
}

// failedFilter chooses failed campaigns, also by status, those that catch up included.
type failedFilter struct {
	admin.FailedFilter
	Status []failed.Status `among:"failed statuses" help:"only with this status"`
}

func (f failedFilter) filter() failed.Filter {
	filter := f.Filter()
	filter.Status = f.Status
	return filter
}

type failedList struct {
	failedFilter
	limited
	After *failed.Place `page:"after"`
}

type failureCauses struct {
	Projection  string `of:"projection" help:"only of this projection"`
	Fingerprint string `of:"fingerprint" help:"only this fingerprint"`
	limited
	After *failed.CauseKey `page:"after"`
}

type failedLog struct {
	Group       string   `of:"group" help:"only records of this consumer group"`
	Projection  string   `of:"projection" help:"only records of this projection"`
	CampaignID  string   `name:"campaign" of:"campaign" help:"only records of this campaign"`
	Fingerprint string   `help:"only failures with this fingerprint"`
	By          string   `help:"only what this operator did"`
	Acts        []string `name:"act" among:"failed acts" help:"only records of this kind"`
	Before      int64    `page:"after" min:"1" help:"only records before the one with this id"`
	limited
}

type resolutionList struct {
	Projection string `of:"projection" help:"only of this projection"`
	CampaignID string `name:"campaign" of:"campaign" help:"only of this campaign"`
	limited
	After *lookback.Resolution `page:"after"`
}

func failedViews() []*View {
	return []*View{
		list(View{
			Name: "listFailed", Command: "failed list", Path: "/failed", Schema: "FailedCampaign",
			Short: "List failed campaigns, due ones first",
			Examples: []string{
				"failed list --status dead",
				"failed list --projection scores --class permanent --json",
			},
			Empty: "No matching failed campaigns.",
		}, lists[*failedList, failed.Campaign]{
			Read: func(ctx context.Context, from Reader, in *failedList) ([]failed.Campaign, any, error) {
				f := in.filter()
				f.After, f.Limit = in.After, in.Limit
				if from.Look > 0 && !slices.Contains(in.Status, failed.CatchingUp) {
					found, end, err := failed.Search(ctx, from.Pool, f, from.Look)
					return found, placed(end), err
				}
				found, err := failed.List(ctx, from.Pool, f)
				return found, nextOf(found, in.Limit, failed.Campaign.Place), err
			},
			Columns: "STATUS|PROJECTION|CAMPAIGN|SEQ|TYPE|ATTEMPTS|NEXT|CLASS|CODE|ERROR",
			Row: func(p failed.Campaign) []table.Cell {
				return table.Row(statusCell(p.Status), p.Projection, p.CampaignID, p.NextSeq,
					p.EventType, p.Attempts, p.NextAttemptAt, p.Class, p.Code, p.Message)
			},
		}),
		one(View{
			Name: "getFailed", Command: "failed show", Path: "/failed/{projection}/{campaign}",
			Schema:   "FailedCampaignDetail",
			Short:    "Show a failed campaign: the failure, the event with its payload, the stack, the log",
			Examples: []string{"failed show scores oak"},
		}, func(ctx context.Context, from Reader, in *operator.FailedCampaign) (*failed.Detail, error) {
			d, err := failed.Show(ctx, from.Pool, in.Key())
			if err == nil && d.Event != nil {
				*d.Event = from.event(*d.Event)
			}
			return d, err
		}, showFailed),
		list(View{
			Name: "listFailureCauses", Command: "failed stats", Path: "/failure-causes", Schema: "FailureCause",
			Short: "Count failed and dead campaigns by projection and cause, with an example of each",
			Long: "Count failed and dead campaigns by projection and fingerprint. The fingerprint is the same for " +
				"messages that differ only in numbers and names. Each count stops at 100; LAST is the last " +
				"failure of those counted. Class, code, type and error are those of the campaign named as an example.",
			Examples: []string{"failed stats", "failed stats --projection scores --json"},
			Empty:    "No matching failed campaigns.",
		}, lists[*failureCauses, failed.Cause]{
			Read: func(ctx context.Context, from Reader, in *failureCauses) ([]failed.Cause, any, error) {
				causes, err := failed.Causes(ctx, from.Pool, failed.CauseFilter{
					Projection: in.Projection, Fingerprint: in.Fingerprint, After: in.After, Limit: in.Limit,
				})
				return causes, nextOf(causes, in.Limit, failed.Cause.Key), err
			},
			Columns: "PROJECTION|FINGERPRINT|FAILED|DEAD|CLASS|CODE|TYPE|LAST|FOR EXAMPLE|ERROR",
			Row: func(c failed.Cause) []table.Cell {
				return table.Row(c.Projection, c.Fingerprint, counted(c.Failed, c.Failed >= failed.CauseBound, table.Warning),
					counted(c.Dead, c.Dead >= failed.CauseBound, table.Alarm), c.Class, c.Code, c.EventType, c.LastFailedAt,
					c.CampaignID, c.Message)
			},
		}),
		list(View{
			Name: "listFailedLog", Command: "failed log", Path: "/failed-log", Schema: "FailureRecord",
			Short: "Show failures and what operators did, newest first",
			Examples: []string{
				"failed log --campaign oak", "failed log --act resolved --act replayed --limit 20",
				"failed log --before 4711 --json",
			},
			Empty: "No matching records.",
		}, lists[*failedLog, failed.Record]{
			Read: func(ctx context.Context, from Reader, in *failedLog) ([]failed.Record, any, error) {
				records, err := failed.History(ctx, from.Pool, failed.LogFilter{
					Group: in.Group, Projection: in.Projection, CampaignID: in.CampaignID, Fingerprint: in.Fingerprint,
					Actor: in.By, Acts: in.Acts, Before: in.Before, Limit: in.Limit,
				})
				return records, nextOf(records, in.Limit, func(r failed.Record) int64 { return r.ID }), err
			},
			Columns: "ID|AT|ACT|PROJECTION|CAMPAIGN|SEQ|ATTEMPT|BY|WHY",
			Row: func(r failed.Record) []table.Cell {
				return table.Row(r.ID, r.At, statusCell(r.Act), r.Projection, r.CampaignID,
					table.NumberOrDash(r.Seq), table.NumberOrDash(int64(r.Attempt)), cmp.Or(r.Actor, r.Worker),
					cmp.Or(r.Reason, r.Message))
			},
		}),
		list(View{
			Name: "listResolutions", Command: "failed resolutions", Path: "/resolutions", Schema: "Resolution",
			Short: "List the events that are left out of a projection, with who resolved them and why",
			Examples: []string{
				"failed resolutions --projection scores", "failed resolutions --campaign oak --json",
			},
			Empty: "No matching resolved events.",
		}, lists[*resolutionList, lookback.Resolution]{
			Read: func(ctx context.Context, from Reader, in *resolutionList) ([]lookback.Resolution, any, error) {
				resolutions, err := failed.Resolutions(ctx, from.Pool, failed.ResolutionFilter{
					Projection: in.Projection, CampaignID: in.CampaignID, After: in.After, Limit: in.Limit,
				})
				return resolutions, nextOf(resolutions, in.Limit, func(r lookback.Resolution) lookback.Resolution {
					return lookback.Resolution{CampaignID: r.CampaignID, Projection: r.Projection, Seq: r.Seq}
				}), err
			},
			Columns: "PROJECTION|CAMPAIGN|SEQ|BY|AT|WHY",
			Row: func(r lookback.Resolution) []table.Cell {
				return table.Row(r.Projection, r.CampaignID, r.Seq, r.Actor, r.At, r.Reason)
			},
		}),
	}
}

// statusCell shows a status of any kind of thing, or an act in the failure log.
func statusCell[T ~string](status T) table.Cell {
	cell := table.Text(string(status))
	switch cell.Text {
	case "failed", "skipped", "retrying", "PAUSED":
		cell.Tone = table.Warning
	case "dead", "crashed", "parked", "FAILED":
		cell.Tone = table.Alarm
	}
	return cell
}

func showFailed(page *table.Page, d *failed.Detail) {
	facts := failedFacts(d.Campaign)
	if d.Across() {
		facts[1].Name, facts[4].Value = "key", fmt.Sprintf("position %d", d.NextSeq)
	}
	page.Facts(facts...)
	if d.Event != nil {
		heading := fmt.Sprintf("Event %d", d.Event.Seq)
		if d.Across() {
			heading += " of campaign " + d.Event.CampaignID
		}
		page.Heading(heading)
		page.Facts(eventFacts(*d.Event)...)
		page.JSON(d.Event.Payload)
	}
	if d.Stack != "" {
		page.Heading("Stack")
		page.Text(d.Stack)
	}
	Section(page, "Left out", "listResolutions", d.Resolutions)
	Section(page, "Log", "listFailedLog", d.History)
}

func eventFacts(e event.Event) []table.Fact {
	return []table.Fact{
		{Name: "type", Value: fmt.Sprintf("%s, version %d, %s", e.Type, e.Version, e.Intent)},
		{Name: "id", Value: e.ID.String()},
		{Name: "position", Value: fmt.Sprint(e.Position)},
		{Name: "recorded", Value: table.Stamp(&e.RecordedAt)},
		{Name: "actor", Value: e.Actor},
	}
}

func failedFacts(p failed.Campaign) []table.Fact {
	next := "waits for an operator: requeue or resolve"
	if !p.NextAttemptAt.IsZero() {
		next = table.Stamp(&p.NextAttemptAt)
	}
	facts := []table.Fact{
		{Name: "projection", Value: p.Projection},
		{Name: "campaign", Value: p.CampaignID},
		{Name: "group", Value: p.Group},
		{Name: "status", Value: string(p.Status), Tone: statusCell(p.Status).Tone},
		{Name: "stands before", Value: fmt.Sprintf("event %d", p.NextSeq)},
		{Name: "next attempt", Value: next},
	}
	if p.Reset {
		facts = append(facts, table.Fact{Name: "reset", Value: "its rows are deleted before the next event is applied"})
	}
	if p.Class == "" {
		return facts
	}
	return append(facts,
		table.Fact{Name: "attempts", Value: fmt.Sprint(p.Attempts)},
		table.Fact{Name: "failure", Value: p.Class + ", " + p.Code + ", fingerprint " + p.Fingerprint},
		table.Fact{Name: "first, last", Value: table.Stamp(p.FirstFailedAt) + ", " + table.Stamp(p.LastFailedAt)},
		table.Fact{Name: "worker", Value: p.Worker},
		table.Fact{Name: "message", Value: p.Message},
	)
}

// counted shows a count that stops where there are more.
func counted(n int64, more bool, tone table.Tone) table.Cell {
	cell := table.Number(n, tone)
	if more {
		cell.Text += "+"
	}
	return cell
}
