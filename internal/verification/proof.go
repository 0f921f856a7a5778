package verification

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

// proof is a proof and the first campaigns that differ.
type proof struct {
	admin.Proof
	Unproved []lease.Unproved
}

// prove compares the counts of the projection's group with the journal.
func (v *verify) prove(ctx context.Context, env *cli.Env, pool *pgxpool.Pool, name string) (err error) {
	var found proof
	found.Proof, err = admin.Prove(ctx, pool, name, func(u lease.Unproved) {
		if len(found.Unproved) < v.limit {
			found.Unproved = append(found.Unproved, u)
		}
	})
	if errors.Is(err, rebuild.ErrUnknownProjection) {
		return cli.Hint(err, "tidemark projection list")
	}
	if err != nil {
		return err
	}
	err = env.Print(v.asJSON, document.One(found), func() error { return found.print(env) })
	if err != nil || found.Differing == 0 {
		return err
	}
	return cli.Exitf(cli.ExitDifferences, "%s with applied events that are not exactly the journal's",
		table.Count(found.Differing, found.unit()))
}

func (d proof) print(env *cli.Env) error {
	if len(d.Unproved) > 0 {
		rows := slice.Of(d.Unproved, func(u lease.Unproved) []table.Cell {
			ids := table.Toned("other", table.Alarm)
			if u.SameIDs {
				ids = table.Text("the same")
			}
			return table.Row(u.CampaignID, u.Checkpoint, u.Applied, u.Journal, ids)
		})
		columns := []string{strings.ToUpper(d.unit()), "CHECKPOINT", "APPLIED", "JOURNAL", "IDS"}
		if err := env.PrintTable(columns, rows); err != nil {
			return err
		}
	}
	if more := d.Differing - int64(len(d.Unproved)); more > 0 {
		env.Note("%s not shown: --limit shows more.", table.Count(more, "more "+d.unit()))
	}
	if d.Unhashed > 0 {
		env.Note("For %s only the number of events is known: the worker that applied them has only SQL files and no "+
			"TIDEMARK_PROOF.", table.Count(d.Unhashed, "campaign"))
	}
	if d.Behind > 0 && d.Partitions > 0 {
		env.Note("%s of the projection wait behind their events: nothing is proved of those.", table.Count(d.Behind, "key"))
	} else if d.Behind > 0 {
		env.Note("The projection is behind its group in %s: nothing is proved there.",
			table.Count(d.Behind, "campaign"))
	}
	if d.Resolved > 0 {
		env.Note("It leaves out %s that operators have resolved: tidemark failed resolutions --projection %s",
			table.Count(d.Resolved, "event"), table.Quote(registry.ProjectionOf(d.Projection)))
	}
	if d.Skipped > 0 {
		env.Note("Its policy has skipped %s: tidemark failed log --projection %s --act skipped",
			table.Count(d.Skipped, "event"), table.Quote(d.Projection))
	}
	if d.Partitions > 0 {
		env.Note("%s of projection %s have passed %s; %s.", table.Count(d.Partitions, "partition"), d.Projection,
			table.Count(d.Events, "event"), d.verdict())
		return nil
	}
	env.Note("Consumer group %s has applied %s of %s; %s.", d.Group, table.Count(d.Events, "event"),
		table.Count(d.Campaigns, "campaign"), d.verdict())
	return nil
}

func (d proof) verdict() string {
	if d.Differing == 0 {
		return "in each " + d.unit() + " exactly those of the journal up to its checkpoint, each once"
	}
	return table.Count(d.Differing, d.unit()) + " differ from the journal"
}

// unit is what has a checkpoint.
func (d proof) unit() string {
	if d.Partitions > 0 {
		return "partition"
	}
	return "campaign"
}
