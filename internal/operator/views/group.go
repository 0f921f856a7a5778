package views

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

const noGroup = "No consumer group yet: the first worker registers one."

type everything struct{}

type campaignList struct {
	Prefix string `help:"only ids with this prefix"`
	limited
	After string `page:"after" help:"only ids after this one"`
}

type pauseList struct {
	Group string `of:"group" help:"only in this consumer group"`
	limited
	After *pause.Target `page:"after"`
}

type workerList struct {
	Group string `of:"group" help:"only workers of this consumer group"`
}

// GroupState is a consumer group with its workers and the pauses of the group, its projections and campaigns.
type GroupState struct {
	outbox.Group
	Workers int
	Pauses  []pause.Pause
}

// ProjectionState is a projection with its lag.
type ProjectionState struct {
	rebuild.Registered
	Failed     int64 // campaigns or keys, like the next two
	Dead       int64
	CatchingUp int64
	Behind     int64        // events not applied yet
	Estimated  bool         // some of these are too many to count
	Pause      *pause.Pause // nil: it is not paused
}

func groupViews() []*View {
	return []*View{
		list(View{
			Name: "listGroups", Command: "group list", Path: "/groups", Schema: "ConsumerGroup",
			Short:    "List consumer groups with their workers and pauses",
			Examples: []string{"group list"},
			Empty:    noGroup,
		}, lists[*everything, GroupState]{
			All:     readGroups,
			Columns: "GROUP|STATE|WORKERS|REGISTERED|PAUSED",
			Row: func(g GroupState) []table.Cell {
				i := slices.IndexFunc(g.Pauses, func(p pause.Pause) bool { return p.Target == pause.Target{Group: g.Name} })
				paused := table.Text("")
				if i >= 0 {
					paused = pauseCell(&g.Pauses[i])
				}
				return table.Row(g.Name, g.State, g.Workers, g.RegisteredAt, paused)
			},
			After: func(page *table.Page, groups []GroupState) {
				pauses := slice.Of(groups, func(g GroupState) []pause.Pause { return g.Pauses })
				Section(page, "Paused", "listPauses", slices.Concat(pauses...))
			},
		}),
		list(View{
			Name: "listPauses", Command: "group pauses", Path: "/pauses", Schema: "Pause",
			Short:    "List pauses: projections, then groups, then campaigns, each in descending order of names",
			Examples: []string{"group pauses --group search"},
			Empty:    "No matching pauses.",
		}, lists[*pauseList, pause.Pause]{
			Read: func(ctx context.Context, from Reader, in *pauseList) ([]pause.Pause, any, error) {
				pauses, err := pause.List(ctx, from.Pool, in.Group, in.After, in.Limit)
				return pauses, nextOf(pauses, in.Limit, func(p pause.Pause) pause.Target { return p.Target }), err
			},
			Columns: "GROUP|PROJECTION|CAMPAIGN|SINCE|UNTIL|BY|REASON",
			Row: func(p pause.Pause) []table.Cell {
				return table.Row(p.Group, p.Projection, p.CampaignID, p.PausedAt, p.ExpiresAt, p.By, p.Reason)
			},
		}),
		list(View{
			Name: "listProjections", Command: "projection list", Path: "/projections", Schema: "Projection",
			Short: "List projections with their failed campaigns and lag",
			Long: "List projections with their failed campaigns and lag. SCOPE journal is a projection across campaigns: " +
				"it has keys instead of campaigns, and projection places shows where it stands.",
			Examples: []string{"projection list"},
			Empty:    "No projection yet: the first worker registers its own.",
		}, lists[*everything, ProjectionState]{
			All:     readProjections,
			Columns: "PROJECTION|GROUP|VERSION|SCOPE|STATE|FAILED|DEAD|CATCHING UP|LAG|TABLES|PAUSED",
			Row: func(p ProjectionState) []table.Cell {
				tables := slice.Of(p.Tables, func(name string) string { return p.Schema + "." + name })
				return table.Row(p.Name, p.Group, p.Version, p.Scope, p.State, table.About(p.Failed, p.Estimated, table.Warning),
					table.About(p.Dead, p.Estimated, table.Alarm), table.About(p.CatchingUp, p.Estimated, table.Plain),
					table.About(p.Behind, p.Estimated, table.Plain), strings.Join(tables, " "), pauseCell(p.Pause))
			},
		}),
		list(View{
			Name: "listPlaces", Command: "projection places", Path: "/places", Schema: "Place",
			Short: "List where projections across campaigns stand in the journal, and which process holds them",
			Long: "List the partitions of projections across campaigns: the position up to which events are applied, or " +
				"wait behind the event of their key that failed; how many events that the projection takes follow, in all " +
				"partitions; the age of the first of them; and the process that holds the partition. Above 10,000 events, " +
				"shared among the partitions, LAG is an estimate, marked with ~. KEYS counts " +
				"the projection's keys that are behind, in all partitions, and FROM is the position of the next event of " +
				"the first of them: `lag` counts from there.",
			Examples: []string{"projection places", "projection places --json"},
			Empty:    "No projection sees the events of all campaigns.",
		}, lists[*everything, ledger.Place]{
			All: func(ctx context.Context, from Reader, _ *everything) ([]ledger.Place, error) {
				return ledger.Places(ctx, from.Pool)
			},
			Columns: "PROJECTION|GROUP|PARTITION|POSITION|LAG|AGE|KEYS|FROM|HOLDER",
			Row: func(p ledger.Place) []table.Cell {
				holder := table.Text(p.Holder)
				if p.Holder == "" {
					holder = table.Toned("no process", table.Warning)
				}
				return table.Row(p.Projection, p.Group, p.Partition, p.Position,
					table.About(p.Behind, p.Estimated, table.Plain), table.AgeOf(p.Behind, p.Lag),
					counted(p.Keys, p.Keys >= publications.CountedBehind, table.Warning), table.Number(p.KeysFrom, table.Warning),
					holder)
			},
		}),
		list(View{
			Name: "listCampaigns", Command: "campaign list", Path: "/campaigns",
			Short:    "List campaign ids in order",
			Examples: []string{"campaign list --prefix order-2026", "campaign list --after oak --limit 1000"},
			Empty:    "No matching campaigns.",
		}, lists[*campaignList, string]{
			Read: func(ctx context.Context, from Reader, in *campaignList) ([]string, any, error) {
				ids, err := feed.Campaigns(ctx, from.Pool, in.Prefix, in.After, in.Limit)
				return ids, nextOf(ids, in.Limit, func(id string) string { return id }), err
			},
			Columns: "CAMPAIGN",
			Row:     func(id string) []table.Cell { return table.Row(id) },
		}),
		list(View{
			Name: "listWorkers", Command: "workers list", Path: "/workers", Schema: "Worker",
			Short:    "List workers: what they hold, what they have applied, who drained them",
			Examples: []string{"workers list", "workers list --group search --json"},
			Empty:    "No workers: a worker registers when it starts and unregisters when it stops.",
		}, lists[*workerList, status.Worker]{
			All: func(ctx context.Context, from Reader, in *workerList) ([]status.Worker, error) {
				s, err := readSection(ctx, from, status.SectionWorkers)
				return slices.DeleteFunc(s.Workers, func(w status.Worker) bool {
					return in.Group != "" && in.Group != w.ConsumerGroup
				}), err
			},
			Columns: "OWNER|GROUP|HOST|PID|STARTED|SEEN|HOLDS|APPLIED|DRAINED",
			Row: func(w status.Worker) []table.Cell {
				seen, drained := table.When(w.SeenAt), table.Text("")
				if !w.Live() {
					seen.Tone = table.Alarm
				}
				if w.DrainedBy != "" {
					drained = table.Toned("by "+w.DrainedBy, table.Warning)
				}
				return table.Row(w.Owner, w.ConsumerGroup, w.Host, w.PID, w.StartedAt, seen, w.CampaignsHeld, w.EventsApplied,
					drained)
			},
		}),
	}
}

func readGroups(ctx context.Context, from Reader, _ *everything) (states []GroupState, err error) {
	groups, err := outbox.Groups(ctx, from.Pool)
	if err != nil {
		return nil, err
	}
	workers, err := lease.Workers(ctx, from.Pool)
	if err != nil {
		return nil, err
	}
	pauses, err := pause.List(ctx, from.Pool, "", nil, 0)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		states = append(states, GroupState{
			Group:   g,
			Workers: slice.Count(workers, func(w lease.Worker) bool { return w.ConsumerGroup == g.Name }),
			Pauses:  slices.DeleteFunc(slices.Clone(pauses), func(p pause.Pause) bool { return p.Group != g.Name }),
		})
	}
	return states, nil
}

func readProjections(ctx context.Context, from Reader, _ *everything) (states []ProjectionState, err error) {
	all, err := rebuild.Projections(ctx, from.Pool)
	if err != nil {
		return nil, err
	}
	pauses, err := pause.List(ctx, from.Pool, "", nil, 0)
	if err != nil {
		return nil, err
	}
	var sums []failed.Sum
	var lags []outbox.Behind
	if err := session.WithoutJIT(ctx, from.Pool, func(tx pgx.Tx) (err error) {
		if sums, err = failed.Report(ctx, tx); err == nil {
			lags, err = outbox.Lag(ctx, tx)
		}
		return err
	}); err != nil {
		return nil, err
	}
	for _, p := range all {
		state := ProjectionState{Registered: p}
		campaigns := map[failed.Status]*int64{
			failed.Failed: &state.Failed, failed.Dead: &state.Dead, failed.CatchingUp: &state.CatchingUp,
		}
		for _, sum := range sums {
			if sum.Projection == p.Name {
				*campaigns[sum.Status] += sum.Campaigns
				state.Estimated = state.Estimated || sum.Estimated
			}
		}
		for _, lag := range lags {
			if lag.Group == p.Group && lag.Projection == p.Name {
				state.Behind = lag.Events
				state.Estimated = state.Estimated || lag.Estimated
			}
		}
		for _, paused := range pauses {
			if paused.Target == (pause.Target{Group: p.Group, Projection: p.Name}) {
				state.Pause = &paused
			}
		}
		states = append(states, state)
	}
	return states, nil
}

// pauseCell shows who paused it, until when and why. It is empty without a pause.
func pauseCell(p *pause.Pause) table.Cell {
	if p == nil {
		return table.Text("")
	}
	return table.Toned(pausedBy(p.By, &p.ExpiresAt, p.Reason), table.Warning)
}

func pausedBy(who string, until *time.Time, why string) string {
	text := "by " + who
	if until != nil && !until.IsZero() {
		text += " until " + table.Stamp(until)
	}
	if why != "" {
		text += ": " + why
	}
	return text
}
