package views

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/doctor"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/internal/store/copies"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

type gapList struct {
	Group string    `of:"group" help:"only gaps of this consumer group (default all)"`
	After *gapPlace `page:"after"`
}

// gapPlace is where a page of gaps begins: after a campaign of a group.
type gapPlace struct{ Group, CampaignID string }

type lateList struct {
	After *copies.Walk `page:"after"`
}

type operationDetail struct {
	operator.Operation
	After int64 `help:"only items after this number"`
	Limit int   `page:"limit" min:"1" default:"20" help:"maximum number of items"`
}

type operationState struct {
	admin.Operation
	Items []admin.Item

	more bool // there may be more items
}

type itemList struct {
	operator.Operation
	After int64 `page:"after" help:"only items after this number"`
	limited
}

type statusSections struct {
	Sections []status.Section `name:"section" among:"sections" help:"only these sections"`
}

// queueReport is the backlog of a group, with the number of pauses of the group, its projections and
// its campaigns.
type queueReport struct {
	outbox.GroupReport
	Pauses int64
}

type publisherLag struct {
	Position, Behind int64
	Lag              time.Duration
	Estimated        bool
}

// callViews has the views of operations, gaps and lag, and views that only the API has because commands
// show their content in other views.
func callViews() []*View {
	return []*View{
		one(View{
			Name: "getPublisher", Path: "/publishers/{topic}/{publisher}", Schema: "Publication",
			Short: "One publisher of a topic",
		}, func(ctx context.Context, from Reader, in *publication) (publications.Publication, error) {
			return in.one(ctx, from)
		}, nil),
		one(View{
			Name: "getPublisherLag", Path: "/publishers/{topic}/{publisher}/lag", Schema: "PublisherLag",
			Short: "How far a publisher of a topic is behind",
		}, func(ctx context.Context, from Reader, in *publication) (publisherLag, error) {
			p, err := in.one(ctx, from)
			return publisherLag{p.Position, p.Behind, p.Lag, p.Estimated}, err
		}, nil),
		one(View{
			Name: "getStatus", Path: "/status", Schema: "Status",
			Short: "The status of everything or of some sections, with all problems",
		}, func(ctx context.Context, from Reader, in *statusSections) (*document.Standing, error) {
			s, err := (&status.Reader{Pool: from.Pool}).Read(ctx, in.Sections...)
			if err != nil {
				return nil, err
			}
			return &document.Standing{Status: *s, Problems: s.Problems()}, nil
		}, nil),
		one(View{
			Name: "getDoctor", Path: "/doctor", Schema: "Doctor",
			Short: "What is wrong with the database and the schema, and what to do about it",
		}, func(ctx context.Context, from Reader, _ *everything) (document.Found, error) {
			findings, err := doctor.Run(ctx, from.Pool, doctor.Options{})
			findings = slices.DeleteFunc(findings, func(f doctor.Finding) bool { // checks of the calling process
				return f.Check == "mode" || f.Check == "pool"
			})
			return document.Found{Worst: doctor.Worst(findings), Findings: findings}, err
		}, nil),
		one(View{
			Name: "getOperation", Command: "operation show", Path: "/operations/{id}", Schema: "Operation",
			Short:    "Show an operation: its request, its progress, and the outcome of each item",
			Examples: []string{"operation show 7", "operation show 7 --limit 1000 --json"},
		}, func(ctx context.Context, from Reader, in *operationDetail) (operationState, error) {
			o, err := from.Acts.Operation(ctx, in.ID)
			if err != nil {
				return operationState{}, err
			}
			items, err := from.Acts.Items(ctx, in.ID, in.After, in.Limit)
			return operationState{*o, items, len(items) == in.Limit}, err
		}, showOperation),
		list(View{
			Name: "listOperationItems", Path: "/operations/{id}/items", Schema: "OperationItem",
			Short: "The items of an operation and their outcomes",
		}, lists[*itemList, admin.Item]{
			Read: func(ctx context.Context, from Reader, in *itemList) ([]admin.Item, any, error) {
				items, err := from.Acts.Items(ctx, in.ID, in.After, in.Limit)
				if err == nil && len(items) == 0 {
					_, err = from.Acts.Operation(ctx, in.ID)
				}
				return items, nextOf(items, in.Limit, func(i admin.Item) int64 { return i.Ord }), err
			},
			Columns: "#|CAMPAIGN|OF|SEQ|OUTCOME|DETAIL",
			Row: func(i admin.Item) []table.Cell {
				return table.Row(i.Ord, i.CampaignID, i.Subject, i.Seq, i.Outcome, i.Detail)
			},
		}),
		list(View{
			Name: "listGaps", Command: "gaps detect", Path: "/gaps", Schema: "Gap",
			Short: "List the gaps of all consumer groups or of one",
			Long: "List the gaps of all consumer groups or of one. A page of the API may be empty and have a " +
				"next one.",
			Examples: []string{"gaps detect"},
			Empty:    "No gap.",
		}, lists[*gapList, outbox.Gap]{
			Read:    readGaps,
			Columns: "GROUP|CAMPAIGN|CHECKPOINT|HEAD",
			Row:     func(g outbox.Gap) []table.Cell { return table.Row(g.Group, g.CampaignID, g.Checkpoint, g.Head) },
			After: func(page *table.Page, _ []outbox.Gap) {
				page.Note("To repair them: tidemark gaps repair GROUP")
			},
		}),
		list(View{
			Name: "listLate", Command: "gaps late", Path: "/late-events", Schema: "LateEvent",
			Short: "List events that readers of the journal may have passed",
			Long: "List events that were appended later than events at higher positions. Publishers and projections across " +
				"campaigns that had passed their positions have not seen them: rebuild these, and publish the campaigns " +
				"again. A copy of the database whose sequence was behind has such events (copy repair), and so does a server " +
				"whose clock has gone back. A page of the API may be empty and have a next one.",
			Examples: []string{"gaps late"},
			Empty:    "No late event.",
		}, lists[*lateList, copies.Late]{
			Read:    readLate,
			Columns: "POSITION|CAMPAIGN|SEQ|TYPE|APPENDED|AFTER AN EVENT OF",
			Row: func(e copies.Late) []table.Cell {
				return table.Row(e.Position, e.CampaignID, e.Seq, e.Type, &e.RecordedAt, &e.Before)
			},
		}),
		list(View{
			Name: "listQueue", Command: "outbox report", Path: "/queue", Schema: "QueueReport",
			Short: "Count the backlog by status and show its oldest entry",
			Long: "Count the backlog of each consumer group by status and show the oldest entry that a worker could " +
				"take now. With --status or --limit it also lists entries. Counts above some thousand are estimates, " +
				"marked with ~. Pending, processing and paused count events; failed, dead and catching up count " +
				"campaigns of a projection. Pauses counts those of the group, its projections and campaigns; group " +
				"list names them.",
			Examples: []string{"outbox report", "outbox report --status failed --limit 100 --json"},
			Empty:    noGroup,
		}, lists[*everything, queueReport]{
			All:     readQueue,
			Columns: "GROUP|PENDING|PROCESSING|PAUSED|FAILED|DEAD|CATCHING UP|PAUSES|AGE|OLDEST",
			Row: func(g queueReport) []table.Cell {
				oldest, age := table.OrDash(""), table.NumberText("-")
				if e := g.Oldest; e != nil {
					oldest, age = table.Text(fmt.Sprintf("%s %d %s", e.CampaignID, e.Seq, e.EventType)),
						table.NumberText(table.Age(g.At.Sub(e.Since)))
					if e.Projection != "" {
						oldest.Text += " for " + e.Projection
					}
				}
				return table.Row(g.Group, table.About(g.Pending, g.Estimated, table.Plain),
					table.About(g.Processing, g.Estimated, table.Plain), table.About(g.Paused, g.Estimated, table.Warning),
					table.About(g.Failed, g.Estimated, table.Warning), table.About(g.Dead, g.Estimated, table.Alarm),
					table.About(g.CatchingUp, g.Estimated, table.Plain), table.Number(g.Pauses, table.Warning), age, oldest)
			},
		}),
		list(View{
			Name: "listLag", Command: "lag", Path: "/lag", Schema: "Lag",
			Short: "Show how far groups and their projections are behind the journal",
			Long: "Show how far each consumer group and each projection is behind the journal: events that it takes and " +
				"that are not applied yet, their campaigns, and the age of the oldest. Figures above some thousand are " +
				"estimates, marked with ~.",
			Examples: []string{
				"lag", "lag --json | jq '.items[] | select(.age_seconds > 60)'",
			},
			Empty: noGroup,
		}, lists[*everything, status.Lag]{
			All: func(ctx context.Context, from Reader, _ *everything) (lags []status.Lag, err error) {
				err = session.WithoutJIT(ctx, from.Pool, func(tx pgx.Tx) error {
					behind, err := outbox.Lag(ctx, tx)
					lags = slice.Of(behind, func(b outbox.Behind) status.Lag { return status.Lag{Behind: b} })
					return err
				})
				return lags, err
			},
			Columns: "GROUP|PROJECTION|EVENTS|CAMPAIGNS|AGE",
			Row: func(l status.Lag) []table.Cell {
				projection := table.Text(l.Projection)
				if l.Projection == "" {
					projection = table.Toned("(all)", table.Faint)
				}
				return table.Row(l.Group, projection, table.About(l.Events, l.Estimated, table.Plain),
					table.About(l.Campaigns, l.Estimated, table.Plain), table.AgeOf(l.Events, l.Age))
			},
		}),
		list(View{
			Name: "listRebuilds", Path: "/rebuilds", Schema: "Rebuild", Short: "Rebuilds that have not ended",
			Empty: "No rebuild is under way.",
		}, lists[*everything, rebuild.Rebuild]{
			All: func(ctx context.Context, from Reader, _ *everything) ([]rebuild.Rebuild, error) {
				s, err := readSection(ctx, from, status.SectionRebuilds)
				return s.Rebuilds, err
			},
			Columns: "PROJECTION|FROM|TO|STATE|DONE|LEFT|FAILED|DEAD|STARTED|BY|NOT SWAPPED",
			Row: func(r rebuild.Rebuild) []table.Cell {
				state := table.Text(r.State)
				if r.Paused {
					state = table.Toned("paused", table.Warning)
				}
				return table.Row(r.Projection, r.FromVersion, table.NumberOrDash(int64(r.Version)), state,
					table.NumberText(fmt.Sprintf("%.0f%%", 100*r.Progress())), table.About(r.Left, r.Estimated, table.Plain),
					table.About(r.Failed, r.Estimated, table.Warning), table.About(r.Dead, r.Estimated, table.Alarm),
					r.StartedAt, r.By, table.Toned(r.Refusal, table.Warning))
			},
		}),
	}
}

// readGaps returns all gaps. For the API it returns after a search that stops within a group, with the
// place to continue.
func readGaps(ctx context.Context, from Reader, in *gapList) (gaps []outbox.Gap, _ any, err error) {
	groups, err := outbox.Groups(ctx, from.Pool)
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(groups, func(a, b outbox.Group) int { return strings.Compare(a.Name, b.Name) })
	var place gapPlace
	if in.After != nil {
		place = *in.After
	}
	for _, g := range groups {
		if in.Group != "" && g.Name != in.Group || g.Name < place.Group {
			continue
		}
		if g.Name > place.Group {
			place = gapPlace{Group: g.Name}
		}
		for more := true; more; more = place.CampaignID != "" {
			var found []outbox.Gap
			found, place.CampaignID, err = outbox.Gaps(ctx, from.Pool, g.Name, place.CampaignID, 0)
			if err != nil {
				return nil, nil, err
			}
			if gaps = append(gaps, found...); from.API && place.CampaignID != "" {
				return gaps, place, nil
			}
		}
	}
	return gaps, nil, nil
}

// readLate returns all late events. For the API it returns after each window of the journal.
func readLate(ctx context.Context, from Reader, in *lateList) (late []copies.Late, _ any, err error) {
	walk := in.After
	if walk == nil {
		walk = &copies.Walk{}
	}
	for walk != nil {
		var found []copies.Late
		if found, walk, err = copies.FindLate(ctx, from.Pool, *walk); err != nil {
			return nil, nil, err
		}
		if late = append(late, found...); from.API && walk != nil {
			return late, walk, nil
		}
	}
	return late, nil, nil
}

func readQueue(ctx context.Context, from Reader, _ *everything) (reports []queueReport, err error) {
	err = session.WithoutJIT(ctx, from.Pool, func(tx pgx.Tx) error {
		groups, err := outbox.Report(ctx, tx)
		if err != nil {
			return err
		}
		pauses, err := pause.List(ctx, tx, "", nil, 0)
		for _, g := range groups {
			paused := slice.Count(pauses, func(p pause.Pause) bool { return p.Group == g.Group })
			reports = append(reports, queueReport{g, int64(paused)})
		}
		return err
	})
	return reports, err
}

func readSection(ctx context.Context, from Reader, section status.Section) (status.Status, error) {
	s, err := (&status.Reader{Pool: from.Pool}).Read(ctx, section)
	if err != nil {
		return status.Status{}, err
	}
	return *s, s.Unread[section]
}

func showOperation(page *table.Page, o operationState) {
	state := OperationState(o.Operation)
	facts := []table.Fact{
		{Name: "id", Value: fmt.Sprint(o.ID)},
		{Name: "kind", Value: string(o.Kind)},
		{Name: "state", Value: state.Text, Tone: state.Tone},
		{Name: "asked for", Value: string(o.Request)},
		{Name: "by", Value: o.By},
		{Name: "reason", Value: o.Reason},
		{Name: "done", Value: fmt.Sprintf("%d of %d, skipped %d, failed %d", o.Done, o.Total, o.Skipped, o.Failed)},
		{Name: "started", Value: table.Stamp(&o.CreatedAt)},
		{Name: "ended", Value: table.Stamp(o.EndedAt)},
		{Name: "progress", Value: string(o.Progress)},
		{Name: "error", Value: o.Error},
		{Name: "aborted by", Value: o.EndedBy},
	}
	if s := o.Since; s != nil {
		since := fmt.Sprintf("%d failed again, %d waiting, %d got past it", s.FailedAgain, s.Waiting, s.Passed)
		if s.LookedAt < o.Done {
			since += fmt.Sprintf("; of the first %d", s.LookedAt)
		}
		facts = append(facts, table.Fact{Name: "since then", Value: since})
	}
	page.Facts(facts...)
	Section(page, "What it is about", "listOperationItems", o.Items)
	if o.more {
		page.Note("There may be more: --after %d", o.Items[len(o.Items)-1].Ord)
	}
}
