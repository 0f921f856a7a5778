package verification

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator/acts"
	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/progress"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

const (
	// repairAsks is the largest number of campaigns repaired without asking.
	repairAsks = 100

	// repairChunk is the number of campaigns filed in one transaction.
	repairChunk = 1000
)

type verified struct {
	Projection        string
	ProjectionVersion int
	lookback.VerifyReport
	Resolutions []lookback.Resolution // the first --limit of them
	Differences []lookback.Difference // the first --limit of them
	NotShown    int64                 // further differences
	Repaired    *int64                // campaigns filed for a replay; nil: without --repair
}

type verify struct {
	code     code
	request  lookback.VerifyRequest
	campaign string
	repair   bool
	proof    bool
	act      cli.Act
	limit    int
	asJSON   bool

	document  verified
	across    bool     // its rows belong to keys
	differing []string // campaigns to repair
	meter     *progress.Meter
}

// NewVerify returns the command that verifies a projection.
func NewVerify(env *cli.Env, compiled Compiled) *cobra.Command {
	v := verify{code: code{compiled: compiled}}
	command := &cobra.Command{
		Use:   "verify NAME",
		Short: "Compare a projection's rows with what the journal says, row by row",
		Long: `Compare a projection's rows with what the journal says: the events of each campaign are applied
from the first one on, beside the live tables, up to where the projection stands, and the rows are
compared. Live work goes on meanwhile, and nothing is written. Without --campaign and --sample it is all
campaigns, and rows of campaigns that the journal does not have. It ends with 7 if anything differs,
repaired or not.

With --proof no event is applied, and no code is needed: the number of events that workers have applied
of each campaign, and a hash of their ids, are kept with each checkpoint, and are compared with the
journal.

The code is that of the SQL files which workers read; the program of a worker with projections in Go has
this command too: PROGRAM projection verify NAME. It takes the version that is registered. The tables that a
rebuild has replaced, as long as they are kept, and those that it builds are verified as NAME~previous and
NAME~next, with the code of theirs.`,
		Example: `  tidemark projection verify sessions --sample 1000
  tidemark projection verify sessions --campaign oak --json
  tidemark projection verify sessions --proof
  tidemark projection verify sessions~previous --projections-dir old/projections
  tidemark projection verify sessions --all --repair --reason 'rows were changed by hand'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return cli.Usagef("verify which projection? Name one")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := v.check(cmd); err != nil {
				return err
			}
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				if v.proof {
					return v.prove(ctx, env, pool, args[0])
				}
				named := func(r rebuild.Registered) bool { return r.Name == args[0] }
				return v.code.with(ctx, env, pool, named, func(p *projector.Projector, r rebuild.Registered) error {
					return v.run(ctx, env, pool, p, r)
				})
			})
		},
	}
	command.ValidArgsFunction = env.CompleteOne(ProjectionNames)
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVar(&v.campaign, "campaign", "", "only this campaign, or this key of a projection across campaigns")
	flags.IntVar(&v.request.Sample, "sample", 0, "number of random campaigns")
	flags.BoolVar(&v.request.All, "all", false,
		"all campaigns, and rows of campaigns that the journal does not have; the default")
	flags.StringSliceVar(&v.request.Ignore, "ignore", nil, "columns that may differ: column, or table.column")
	flags.IntVar(&v.limit, "limit", 100, "maximum number of differences to show; the rest are counted")
	flags.BoolVar(&v.proof, "proof", false,
		"apply nothing: compare the number and the ids of the events that were applied with the journal")
	flags.BoolVar(&v.repair, "repair", false, "have workers replay the campaigns that differ, from scratch")
	v.act.BindOne(flags)
	flags.BoolVar(&v.act.Yes, "yes", false, "do not ask for confirmation")
	flags.BoolVar(&v.asJSON, "json", false, "write JSON")
	v.code.bind(env, command)
	cli.CompleteFlag(command, "campaign", env.Complete(campaignIDs))
	return command
}

func (v *verify) check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("sample") && v.request.Sample < 1 {
		return cli.Usagef("--sample %d: at least 1", v.request.Sample)
	}
	chosen := slice.Count([]string{"campaign", "sample", "all"}, cmd.Flags().Changed)
	if chosen > 1 {
		return cli.Usagef("--campaign, --sample and --all: one at a time")
	}
	if v.proof && (chosen > 0 && !v.request.All || v.repair) {
		return cli.Usagef("--proof covers all campaigns and repairs nothing: combine it only with --all, --limit and --json")
	}
	if v.campaign != "" {
		v.request.Campaigns = []string{v.campaign}
	}
	v.request.All = v.campaign == "" && v.request.Sample == 0
	if !v.repair && (v.act.Yes || v.act.Reason != "") {
		return cli.Usagef("--yes and --reason need --repair: without it nothing is changed")
	}
	return nil
}

func (v *verify) run(
	ctx context.Context, env *cli.Env, pool *pgxpool.Pool, p *projector.Projector, r rebuild.Registered,
) error {
	v.document = verified{Projection: r.Name, ProjectionVersion: r.Version}
	v.request.Projection, v.across = r.Name, r.Scope == string(projection.ScopeJournal)
	if v.repair {
		v.request.OnCampaign = func(id string) { v.differing = append(v.differing, id) }
	}
	v.request.OnDifference = func(d lookback.Difference) {
		if len(v.document.Differences) < v.limit {
			v.document.Differences = append(v.document.Differences, d)
		}
	}
	v.request.OnResolution = func(r lookback.Resolution) {
		if len(v.document.Resolutions) < v.limit {
			v.document.Resolutions = append(v.document.Resolutions, r)
		}
	}
	v.request.OnProgress = func(now lookback.VerifyReport) {
		if v.meter == nil {
			v.meter = progress.New(env.Err, "campaigns", now.Total)
		}
		v.meter.Set(now.Campaigns+now.Skipped, now.Events)
	}
	report, err := p.Verify(ctx, v.request)
	if err != nil {
		return explain(err)
	}
	v.document.VerifyReport, v.document.NotShown = report, report.Differences()-int64(len(v.document.Differences))
	if v.repair {
		if err := v.replay(ctx, env, pool, r); err != nil {
			return err
		}
	}
	err = env.Print(v.asJSON, document.One(v.document), func() error { return v.print(env) })
	if err != nil || report.Differences() == 0 {
		return err
	}
	err = cli.Exitf(cli.ExitDifferences, "%s of projection %s", table.Count(report.Differences(), "difference"), r.Name)
	if v.repair || len(report.Tables) == 0 || report.Differing == 0 {
		return err
	}
	return cli.Hint(err, "tidemark projection verify %s --repair", table.Quote(r.Name))
}

// replay files the differing campaigns for a replay from scratch.
func (v *verify) replay(ctx context.Context, env *cli.Env, pool *pgxpool.Pool, r rebuild.Registered) error {
	n := int64(0)
	v.document.Repaired = &n
	if len(v.differing) > repairAsks {
		confirmation := cli.Confirmation{
			What: fmt.Sprintf("replay %d campaigns from scratch", len(v.differing)),
			Type: fmt.Sprint(len(v.differing)), Yes: v.act.Yes,
		}
		if err := env.Confirm(ctx, confirmation); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(v.differing, repairChunk) {
		err := acts.ReplayCampaigns(ctx, admin.On(pool), admin.By(v.act.By, v.act.Reason), r.Group, r.Name, some)
		if err != nil {
			return cli.Exitf(cli.ExitPartial, "%d of %d campaigns are filed for a replay, then: %w", n, len(v.differing), err)
		}
		n += int64(len(some))
	}
	return nil
}
