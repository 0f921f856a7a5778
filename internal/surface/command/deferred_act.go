package command

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

const (
	// requeueAsks and resolveAsks are how many failed campaigns are changed without asking. An event that is
	// skipped stays skipped; what is requeued only fails again.
	requeueAsks = 100
	resolveAsks = 0

	// previewRows is how many failed campaigns a dry run shows.
	previewRows = 1000
)

// chosen is how many pairs an act changed or, in a dry run, would change; of a dry run pairs are the first ones only.
type chosen struct {
	Count int64
	Pairs []deferred.Key
}

// printAct writes what an act did or, in a dry run, would do, as the API answers it.
func printAct(env *cli.Env, kind admin.Kind, dryRun bool, detail any) error {
	if dryRun {
		kind = "dry_run"
	}
	outcome, err := operator.Did(kind, operator.Document(detail))
	if err != nil {
		return err
	}
	return env.PrintJSON(outcome)
}

// actOnPairs is an act on the failed campaigns that a filter chooses.
type actOnPairs struct {
	kind       admin.Kind
	verb, done string // as in "requeue", "requeued"
	asks       int64  // how many pairs need no confirmation
	filter     deferred.Filter
	act        cli.Act
	asJSON     bool
	do         func(acts *admin.Acts, ctx context.Context, by admin.Request, f deferred.Filter) ([]deferred.Key, error)
}

// by is who acts, and why.
func by(act cli.Act) admin.Request { return admin.By(act.By, act.Reason) }

// run counts, asks, acts on no more pairs than were counted, and tells.
func (a actOnPairs) run(ctx context.Context, env *cli.Env, pool *pgxpool.Pool) error {
	n, err := deferred.Count(ctx, pool, a.filter)
	if err != nil {
		return err
	}
	if a.act.DryRun {
		return a.preview(ctx, env, pool, n)
	}
	if n == 0 {
		return a.tell(env, 0, nil)
	}
	if n > a.asks {
		if err := env.Confirm(ctx, cli.Confirmation{
			What: fmt.Sprintf("%s %s", a.verb, failedCampaigns(n)), Type: fmt.Sprint(n),
			Yes: a.act.Yes,
		}); err != nil {
			return err
		}
	}
	a.filter.Limit = int(n)
	keys, err := a.do(admin.On(pool), ctx, by(a.act), a.filter)
	if err != nil {
		return err
	}
	if err := a.tell(env, n, keys); err != nil {
		return err
	}
	switch got := int64(len(keys)); got {
	case n:
		return nil
	case 0:
		return cli.Exitf(cli.ExitConflict,
			"none of %s was %s: somebody else is changing them at this moment; look at them again", failedCampaigns(n), a.done)
	default:
		return cli.Exitf(cli.ExitPartial,
			"%d of %s were %s: somebody else was changing the others at this moment; the same command takes what is left", got,
			failedCampaigns(n), a.done)
	}
}

func (a actOnPairs) preview(ctx context.Context, env *cli.Env, pool *pgxpool.Pool, n int64) error {
	f := a.filter
	f.Limit = int(max(1, min(n, previewRows)))
	list, err := deferred.List(ctx, pool, f)
	if err != nil {
		return err
	}
	keys := make([]deferred.Key, len(list))
	for i, p := range list {
		keys[i] = p.Key
	}
	return a.tell(env, n, keys)
}

// tell prints the pairs, and says on the side how many they are.
func (a actOnPairs) tell(env *cli.Env, n int64, keys []deferred.Key) error {
	if !a.act.DryRun {
		n = int64(len(keys))
	}
	if a.asJSON {
		return printAct(env, a.kind, a.act.DryRun, chosen{n, keys})
	}
	switch {
	case a.act.DryRun && n > int64(len(keys)):
		env.Note("%s would be %s, of which these are the first %d; nothing was changed.", failedCampaigns(n), a.done,
			len(keys))
	case a.act.DryRun:
		env.Note("%s would be %s; nothing was changed.", failedCampaigns(n), a.done)
	case n == 0:
		env.Note("No failed campaign was %s: none matches.", a.done)
		return nil
	default:
		env.Note("%s %s; they are due now: tidemark lag --watch shows them catch up.", failedCampaigns(n), a.done)
	}
	return printKeys(env, keys)
}

func printKeys(env *cli.Env, keys []deferred.Key) error {
	if len(keys) == 0 {
		return nil
	}
	var rows [][]cli.Cell
	for _, k := range keys {
		rows = append(rows, []cli.Cell{cli.Text(k.Projection), cli.Text(k.CampaignID)})
	}
	return env.PrintTable([]string{"PROJECTION", "CAMPAIGN"}, rows)
}

func pairs(n int64) string { return counted(n, "pair") }

func failedCampaigns(n int64) string { return counted(n, "failed campaign") }

// counted writes a number of things whose plural ends in s.
func counted(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
