package verification

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/cli"
	"github.com/tidemark-go/tidemark/pkg/deferred"
	"github.com/tidemark-go/tidemark/pkg/lease"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// proofVersion changes when a field goes or changes its meaning.
const proofVersion = 1

type proofJSON struct {
	Version           int            `json:"version"`
	Projection        string         `json:"projection"`
	ProjectionVersion int            `json:"projection_version"`
	Group             string         `json:"group"`
	Campaigns         int64          `json:"campaigns"` // that the group has applied events of
	Events            int64          `json:"events"`    // that it has applied
	Unhashed          int64          `json:"unhashed"`  // campaigns of whose events only the number is known
	Behind            int64          `json:"behind"`    // campaigns in which the projection is behind the group: nothing is said of it there
	Skipped           int64          `json:"skipped"`   // events that it has gone past without applying them, as far back as the failure log is kept
	Differing         int64          `json:"differing"`
	Unproved          []unprovedJSON `json:"unproved"`
}

type unprovedJSON struct {
	CampaignID string `json:"campaign_id"`
	Checkpoint int64  `json:"checkpoint"`
	Applied    int64  `json:"applied"`  // events, on the way to the checkpoint
	Journal    int64  `json:"journal"`  // events up to the checkpoint
	SameIDs    bool   `json:"same_ids"` // false: other events were applied than those of the journal
}

// prove compares what the projection's group has counted with the journal.
func (v *verify) prove(ctx context.Context, env *cli.Env, pool *pgxpool.Pool, name string) error {
	all, err := projector.Projections(ctx, pool)
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.Name == name {
			return v.proveGroup(ctx, env, pool, r)
		}
	}
	return cli.Hint(cli.Exitf(cli.ExitFailed, "no projection %q is registered", name), "maintenance projection list")
}

func (v *verify) proveGroup(ctx context.Context, env *cli.Env, pool *pgxpool.Pool, r projector.Registered) error {
	document := proofJSON{Version: proofVersion, Projection: r.Name, ProjectionVersion: r.Version, Group: r.Group, Unproved: []unprovedJSON{}}
	err := pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		proved, err := lease.Prove(ctx, tx, r.Group, func(u lease.Unproved) {
			if document.Differing++; len(document.Unproved) < v.limit {
				document.Unproved = append(document.Unproved, unprovedJSON(u))
			}
		})
		if err != nil {
			return err
		}
		document.Campaigns, document.Events, document.Unhashed = proved.Campaigns, proved.Events, proved.Unhashed
		if document.Behind, err = deferred.Count(ctx, tx, deferred.Filter{Projection: r.Name}); err != nil {
			return err
		}
		document.Skipped, err = deferred.CountSkipped(ctx, tx, r.Name)
		return err
	})
	if err != nil {
		return err
	}
	if v.asJSON {
		err = env.PrintJSON(document)
	} else {
		err = document.print(env)
	}
	if err != nil || document.Differing == 0 {
		return err
	}
	return cli.Exitf(cli.ExitDifferences, "%s of which not exactly the journal's events were applied", plural(document.Differing, "campaign"))
}

func (d proofJSON) print(env *cli.Env) error {
	if len(d.Unproved) > 0 {
		var rows [][]cli.Cell
		for _, u := range d.Unproved {
			ids := cli.Cell{Text: "other", Tone: cli.Alarm}
			if u.SameIDs {
				ids = cli.Text("the same")
			}
			rows = append(rows, []cli.Cell{cli.Text(u.CampaignID), cli.Number(u.Checkpoint, cli.Plain), cli.Number(u.Applied, cli.Plain), cli.Number(u.Journal, cli.Plain), ids})
		}
		if err := env.PrintTable([]string{"CAMPAIGN", "CHECKPOINT", "APPLIED", "JOURNAL", "IDS"}, rows); err != nil {
			return err
		}
	}
	if more := d.Differing - int64(len(d.Unproved)); more > 0 {
		env.Note("%s not shown: --limit shows more.", plural(more, "more campaign"))
	}
	if d.Unhashed > 0 {
		env.Note("Of %s only the number of the events is known: all projections of the group are SQL files, and TIDEMARK_PROOF was not set.", plural(d.Unhashed, "campaign"))
	}
	if d.Behind > 0 {
		env.Note("The projection is behind its group in %s: nothing is proved of it there.", plural(d.Behind, "campaign"))
	}
	if d.Skipped > 0 {
		env.Note("It has gone past %s without applying them: maintenance deferred log --projection %s --act skipped", plural(d.Skipped, "event"), cli.Quote(d.Projection))
	}
	env.Note("Consumer group %s has applied %s of %s; %s.", d.Group, plural(d.Events, "event"), plural(d.Campaigns, "campaign"), d.verdict())
	return nil
}

func (d proofJSON) verdict() string {
	if d.Differing == 0 {
		return "each campaign's are those of the journal up to its checkpoint, each once"
	}
	return plural(d.Differing, "campaign") + " not exactly those of the journal"
}
