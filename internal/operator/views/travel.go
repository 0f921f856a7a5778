package views

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

type travel struct {
	oneCampaign
	Projection string `of:"projection" required:"true" help:"the projection"`
	After      string `help:"wait up to 10 s until the projection has applied the event of this token"`
}

type asOf struct {
	travel
	Seq  *int64    `help:"after this event; 0: before the first; across campaigns a position"`
	Time time.Time `help:"after the last event before this time, instead of seq; only across campaigns"`
}

type diffBetween struct {
	travel
	From *int64 `help:"after this event (default the one before to)"`
	To   int64  `required:"true" help:"up to this event"`
}

type whyRow struct {
	travel
	Table string   `help:"the table (default the only one)"`
	Key   []string `empty:"true" help:"values of the primary key without campaign_id, in the order of its columns"`
	Seq   int64    `help:"as of this event; 0: the last one"`
}

type campaignVerification struct {
	travel
	Ignore []string `help:"columns that may differ: column or table.column"`
	Limit  int      `page:"limit" min:"1" default:"100" help:"maximum number of differences; the rest is counted"`
}

type differences struct {
	Projection, CampaignID string
	Skipped                bool  // the projection is being rebuilt there: nothing was compared
	Events                 int64 // applied for the comparison
	Tables                 []lookback.VerifiedTable
	Unchecked              []string
	Differences            []lookback.Difference
	NotShown               int64 // differences beyond the limit
}

// travelViews are for the API only. Commands bring the code of projections and show more.
func travelViews() []*View {
	return []*View{
		one(View{
			Name: "getAsOf", Path: "/campaigns/{campaign}/as-of", Schema: "ReadModel", Rows: true,
			Short: "The campaign's rows in a projection after an event",
		}, func(ctx context.Context, from Reader, in *asOf) (state lookback.State, err error) {
			at, err := in.place(ctx, from)
			if err != nil {
				return state, err
			}
			err = from.Acts.Travel(ctx, in.Projection, func(code *projector.Projector) error {
				state, err = code.AsOf(ctx, in.Projection, in.CampaignID, at)
				return err
			})
			for _, t := range state.Tables {
				for i, row := range t.Rows {
					t.Rows[i] = from.row(row)
				}
			}
			return state, err
		}, nil),
		list(View{
			Name: "getDiff", Path: "/campaigns/{campaign}/diff", Schema: "RowChange", Rows: true,
			Short: "The row changes between two events",
		}, lists[*diffBetween, lookback.Change]{Check: (*diffBetween).check, All: readDiff}),
		one(View{
			Name: "getWhy", Path: "/campaigns/{campaign}/why", Schema: "Why", Rows: true,
			Short: "Which events wrote the values of a row",
		}, readWhy, nil),
		one(View{
			Name: "verifyCampaign", Path: "/campaigns/{campaign}/verify", Schema: "Differences", Rows: true,
			Short: "Compare a projection's rows of the campaign with what the journal says, row by row",
		}, readDifferences, nil),
	}
}

func (in *asOf) place(ctx context.Context, from Reader) (int64, error) {
	switch {
	case in.Seq != nil && in.Time.IsZero():
		return *in.Seq, nil
	case in.Seq != nil || in.Time.IsZero():
		return 0, param.Refuse("seq", "", "0 or more", "it does not name one event", "give either seq or time")
	}
	r, err := admin.Registered(ctx, from.Pool, in.Projection)
	if err == nil && r.Scope != string(projection.ScopeJournal) {
		err = param.Refuse("time", in.Time.Format(time.RFC3339), "projections across campaigns",
			in.Projection+" applies campaign by campaign", "give seq")
	}
	if err != nil {
		return 0, err
	}
	return journal.PositionAt(ctx, from.Pool, in.Time)
}

func (in *diffBetween) check() error {
	if in.From != nil && *in.From > in.To {
		return param.Refuse("from", fmt.Sprint(*in.From), fmt.Sprintf("0 to %d", in.To), "from is after to",
			"swap them")
	}
	return nil
}

func readDiff(ctx context.Context, from Reader, in *diffBetween) (changes []lookback.Change, err error) {
	begin := max(0, in.To-1)
	if in.From != nil {
		begin = *in.From
	}
	err = from.Acts.Travel(ctx, in.Projection, func(code *projector.Projector) error {
		changes, err = code.Diff(ctx, in.Projection, in.CampaignID, begin, in.To)
		return err
	})
	for i, c := range changes {
		changes[i].Before, changes[i].After = from.row(c.Before), from.row(c.After)
	}
	return changes, err
}

func readWhy(ctx context.Context, from Reader, in *whyRow) (why lookback.Why, err error) {
	err = from.Acts.Travel(ctx, in.Projection, func(code *projector.Projector) error {
		why, err = code.Why(ctx, lookback.WhyRequest{
			Projection: in.Projection, CampaignID: in.CampaignID, Table: in.Table, Key: in.Key, Seq: in.Seq,
		})
		return err
	})
	if err != nil {
		return why, err
	}
	var row map[string]json.RawMessage
	if why.Row = from.row(why.Row); why.Row != nil {
		if err := json.Unmarshal(why.Row, &row); err != nil {
			return why, err
		}
	}
	for i, c := range why.Causes { // values hidden in the row are hidden here too
		why.Causes[i] = lookback.Cause{Column: c.Column, Value: row[c.Column], Event: from.event(c.Event)}
	}
	if why.Gone != nil {
		*why.Gone = from.event(*why.Gone)
	}
	return why, nil
}

func readDifferences(ctx context.Context, from Reader, in *campaignVerification) (d differences, err error) {
	var report lookback.VerifyReport
	request := lookback.VerifyRequest{
		Projection: in.Projection, Campaigns: []string{in.CampaignID}, Ignore: in.Ignore, Concurrency: 1,
		OnDifference: func(found lookback.Difference) {
			if len(d.Differences) < in.Limit {
				found.Want, found.Got = from.row(found.Want), from.row(found.Got)
				d.Differences = append(d.Differences, found)
			}
		},
	}
	err = from.Acts.Travel(ctx, registry.ProjectionOf(in.Projection), func(code *projector.Projector) error {
		report, err = code.Verify(ctx, request)
		return err
	})
	d.Projection, d.CampaignID, d.Skipped, d.Events = in.Projection, in.CampaignID, report.Skipped > 0, report.Events
	d.Tables, d.Unchecked = report.Tables, report.Unchecked
	d.NotShown = report.Differences() - int64(len(d.Differences))
	return d, err
}
