package views

import (
	"context"
	"fmt"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

type publisherList struct {
	Topic     string `of:"topic" help:"only pairs of this topic"`
	Publisher string `of:"publisher" help:"only pairs of this publisher"`
}

type ghostList struct {
	publication
	limited
	After *publications.Ghost `page:"after"`
}

type parkedList struct {
	admin.ParkedFilter
	Seq    int64  `min:"1" help:"only events with this seq"`
	Status string `among:"parked statuses" help:"only events with this status"`
	limited
	After *publications.Parked `page:"after"`
}

type operatorLog struct {
	Topic      string `of:"topic" help:"only acts on this topic"`
	Publisher  string `of:"publisher" help:"only acts on this publisher"`
	CampaignID string `name:"campaign" of:"campaign" help:"only acts on this campaign"`
	By         string `help:"only what this operator did"`
	Before     int64  `page:"after" min:"1" help:"only records before the one with this id"`
	limited
}

type publisherLog struct {
	operatorLog
	Acts []string `name:"act" among:"publisher acts" help:"only acts of this kind"`
}

type auditLog struct {
	operatorLog
	Acts []string `name:"act" among:"acts" help:"only acts of this kind"`
}

func publisherViews() []*View {
	return []*View{
		list(View{
			Name: "listPublishers", Command: "publisher list", Path: "/publishers", Schema: "Publication",
			Short: "List the publishers of each topic with position, errors and holder",
			Long: "List the publishers of each topic with position, errors and holder. EVENTS counts the topic's " +
				"events after the pair's position, without those in PARKED. Above 10,000 events of the journal, shared " +
				"among the pairs, it is an estimate, marked with ~. AGE is the age of the oldest of them. STATUS is FAILING " +
				"while attempts fail in a row: ERRORS counts them, and WHY says since when. An idle pair writes its " +
				"position only every few seconds. PUBLISHED is when the last event was published.",
			Examples: []string{
				"publisher list",
				`publisher list --json | jq '.items[] | select(.lag_seconds > 60 or .status != "ACTIVE")'`,
			},
			Empty: "No matching publishers: a worker that is told what to publish where registers its pairs.",
		}, lists[*publisherList, publications.Publication]{
			All: func(ctx context.Context, from Reader, in *publisherList) ([]publications.Publication, error) {
				return publications.List(ctx, from.Pool, publications.Key(*in))
			},
			Columns: "STATUS|TOPIC|PUBLISHER|POSITION|EVENTS|AGE|PUBLISHED|ERRORS|PARKED|RETRYING|HOLDER|WHY",
			Row: func(p publications.Publication) []table.Cell {
				return table.Row(publisherStatus(p), p.Topic, p.Publisher, p.Position,
					table.About(p.Behind, p.Estimated, table.Plain), table.AgeOf(p.Behind, p.Lag), p.LastPublishedAt,
					table.Number(int64(p.Errors), table.Warning), counted(p.Parked, p.ManyParked(), table.Alarm),
					table.Number(p.Retrying, table.Warning), table.OrDash(p.Holder), publisherProblem(p))
			},
		}),
		list(View{
			Name: "listGhosts", Command: "publisher ghosts", Path: "/publishers/{topic}/{publisher}/ghosts", Schema: "Ghost",
			Short: "List sent events that the journal lost in a failover or a restore",
			Long: "List sent events that the journal no longer has, because a failover or a restore lost their " +
				"commits. NOW says what the journal has at their seq: nothing, another event, an archived event, " +
				"or the same event, appended again. Workers check the events that they sent last when they see another " +
				"database or a restarted server. Events of a worker that has ended meanwhile are not found. They are " +
				"listed for 30 days, at most 10,000 of each pair.",
			Examples: []string{
				"publisher ghosts archive",
				`publisher ghosts archive --limit 10000 --json | jq '.items[] | select(.now != "appended again")'`,
			},
			Empty: "No sent event is known to be lost.",
		}, lists[*ghostList, publications.Ghost]{
			Read: func(ctx context.Context, from Reader, in *ghostList) ([]publications.Ghost, any, error) {
				if _, err := in.find(ctx, from); err != nil {
					return nil, nil, err
				}
				ghosts, err := publications.ListGhosts(ctx, from.Pool, publications.GhostFilter{
					Topic: in.Topic, Publisher: in.Publisher, After: in.After, Limit: in.Limit,
				})
				return ghosts, nextOf(ghosts, in.Limit, func(g publications.Ghost) publications.Ghost { return g }), err
			},
			Columns: "TOPIC|CAMPAIGN|SEQ|POSITION|ID|NOW|FOUND",
			Row: func(g publications.Ghost) []table.Cell {
				return table.Row(g.Topic, g.CampaignID, g.Seq, g.Position, g.EventID.String(), g.Now, g.SeenAt)
			},
		}),
		list(View{
			Name: "listParked", Command: "publisher parked list", Path: "/parked", Schema: "Parked",
			Short: "List refused events, and campaigns that catch up behind one",
			Examples: []string{
				"publisher parked list --publisher archive --status parked", "publisher parked list --message 'too large' --json",
			},
			Empty: "No matching parked events.",
		}, lists[*parkedList, publications.Parked]{
			Read: func(ctx context.Context, from Reader, in *parkedList) ([]publications.Parked, any, error) {
				f := in.Filter()
				f.Seq, f.Status, f.After, f.Limit = in.Seq, in.Status, in.After, in.Limit
				if from.Look > 0 && f.Seq == 0 && f.MessagePattern == "" {
					var after *publications.ParkedPlace
					if in.After != nil {
						after = new(in.After.Place())
					}
					parked, end, err := publications.WalkParked(ctx, from.Pool, f, after, from.Look)
					return parked, placed(end), err
				}
				parked, err := publications.ListParked(ctx, from.Pool, f)
				return parked, nextOf(parked, in.Limit, func(p publications.Parked) publications.Parked {
					p.Message = "" // can be long, and the place does not need it
					return p
				}), err
			},
			Columns: "STATUS|TOPIC|PUBLISHER|CAMPAIGN|SEQ|TYPE|HOLDS|ATTEMPTS|SINCE|NEXT|ERROR",
			Row: func(p publications.Parked) []table.Cell {
				holds, next := "no", table.When(p.NextAttemptAt)
				if p.Holds {
					holds = "yes"
				}
				if p.Status == "parked" {
					next = table.OrDash("")
				}
				return table.Row(statusCell(p.Status), p.Topic, p.Publisher, p.CampaignID, p.Seq,
					p.EventType, holds, p.Attempts, p.FirstFailedAt, next, p.Message)
			},
		}),
		logOf(View{
			Name: "listPublisherLog", Command: "publisher log", Path: "/publisher-log",
			Short: "Show what operators did to publishers, newest first",
			Examples: []string{
				"publisher log --publisher archive", "publisher log --act parked_resolved --limit 20 --json",
			},
		}, func(in *publisherLog) (operatorLog, []string) {
			if len(in.Acts) == 0 {
				return in.operatorLog, publications.Acts()
			}
			return in.operatorLog, in.Acts
		}),
		logOf(View{
			Name: "listLog", Command: "audit", Path: "/log",
			Short: "Show what operators did, here, through the API and on the pages, newest first",
			Long: `Show what operators did, here, through the API and on the pages: who, when, why, and what was
asked for. WAY is cli, api or page, and empty for a program; TOKEN is the id of the token, ADDRESS the
client's, and DATABASE USER the login of the database, which no client can choose. failed log has what an act did
to each failed campaign. Records are kept for a year, or as long as TIDEMARK_OPERATOR_LOG_RETENTION says to workers.`,
			Examples: []string{
				"audit --by ada@box", "audit --act failed_resolved --act projection_removed --limit 20",
				"audit --before 4711 --json",
			},
		}, func(in *auditLog) (operatorLog, []string) { return in.operatorLog, in.Acts }),
	}
}

type publication struct{ operator.Publication }

// find returns the named publications, or an error if there is none.
func (in *publication) find(ctx context.Context, from Reader) ([]publications.Publication, error) {
	found, err := publications.List(ctx, from.Pool, in.Key())
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("publisher %q: %w: a pair appears once a worker begins to publish it", in.Said(),
			publications.ErrNotFound)
	}
	return found, err
}

func (in *publication) one(ctx context.Context, from Reader) (p publications.Publication, err error) {
	found, err := in.find(ctx, from)
	if err == nil {
		p = found[0]
	}
	return p, err
}

func logOf[In any](v View, choose func(in In) (operatorLog, []string)) *View {
	v.Schema, v.Empty = "OperatorRecord", "No matching acts."
	return list(v, lists[In, publications.Record]{
		Read: func(ctx context.Context, from Reader, in In) ([]publications.Record, any, error) {
			f, acts := choose(in)
			records, err := publications.Log(ctx, from.Pool, publications.LogFilter{
				Topic: f.Topic, Publisher: f.Publisher, CampaignID: f.CampaignID, Actor: f.By, Acts: acts, Before: f.Before,
				Limit: f.Limit,
			})
			return records, nextOf(records, f.Limit, func(r publications.Record) int64 { return r.ID }), err
		},
		Columns: "ID|AT|ACT|TOPIC|PUBLISHER|CAMPAIGN|SEQ|BY|WAY|TOKEN|ADDRESS|DATABASE USER|WHY|DETAIL",
		Row: func(r publications.Record) []table.Cell {
			return table.Row(r.ID, r.At, r.Act, r.Topic, r.Publisher, r.CampaignID, table.NumberOrDash(r.Seq), r.Actor, r.Way,
				table.NumberOrDash(r.TokenID), r.Address, r.DatabaseUser, r.Reason, string(r.Detail))
		},
	})
}

// publisherStatus shows the status, or FAILING for an active publication whose sink fails.
func publisherStatus(p publications.Publication) table.Cell {
	if p.Failing() {
		return table.Toned("FAILING", table.Warning)
	}
	return statusCell(p.Status)
}

// publisherProblem returns why a publication is paused, failed or failing; "": nothing is wrong.
func publisherProblem(p publications.Publication) string {
	switch {
	case p.Status == "PAUSED" && p.Actor != "":
		return pausedBy(p.Actor, p.PausedUntil, p.Reason)
	case p.Status == "PAUSED", p.Status == "FAILED" && p.Reason != "":
		return p.Reason
	case p.Failing() && p.FailingSince != nil:
		return fmt.Sprintf("since %s: %s", table.Stamp(p.FailingSince), p.LastError)
	case p.Errors > 0:
		return p.LastError
	}
	return ""
}
