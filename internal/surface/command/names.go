package command

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// checkNames has the command refuse names that nothing has, in flags that choose by them. Commands
// that bring code or routes of their own mean the names in those.
func checkNames(env *cli.Env, command *cobra.Command) {
	flags := command.Flags()
	env.Check = nil
	if flags.Lookup("publishers") != nil || flags.Lookup("projections-dir") != nil {
		return
	}
	value := func(name string) string {
		if f := flags.Lookup(name); f != nil && f.Value.Type() == "string" && f.Changed {
			return f.Value.String()
		}
		return ""
	}
	projection := value("projection")
	if strings.Contains(command.Use, "PROJECTION CAMPAIGN") && projection == "" {
		projection = argument(command, "PROJECTION")
	}
	names := admin.Names{
		Group: value("group"), Projection: projection, Topic: value("topic"),
		Publisher: value("publisher"),
	}
	if names == (admin.Names{}) {
		return
	}
	env.Check = func(ctx context.Context, pool *pgxpool.Pool) error {
		err := names.Check(ctx, pool)
		var unknown *admin.UnknownNameError
		if !errors.As(err, &unknown) {
			return err
		}
		noun := unknown.Kind
		if noun == "topic" {
			noun = "publisher"
		}
		return cli.Hint(err, "tidemark %s list", noun)
	}
}

// completions is how many ids a shell is offered at once.
const completions = 50

func campaignIDs(ctx context.Context, pool *pgxpool.Pool, prefix string) ([]string, error) {
	return feed.Campaigns(ctx, pool, prefix, "", completions)
}

func groupNames(ctx context.Context, pool *pgxpool.Pool, _ string) ([]string, error) {
	groups, err := outbox.Groups(ctx, pool)
	var names []string
	for _, g := range groups {
		names = append(names, g.Name)
	}
	return names, err
}

// failedCampaigns offers campaigns in which something is behind: there are few of them, and it is
// those that a user looks for.
func failedCampaigns(ctx context.Context, pool *pgxpool.Pool, _ string) ([]string, error) {
	list, err := failed.List(ctx, pool, failed.Filter{
		Status: []failed.Status{failed.Failed, failed.Dead},
		Limit:  completions,
	})
	var ids []string
	for _, p := range list {
		ids = append(ids, p.CampaignID)
	}
	slices.Sort(ids)
	return slices.Compact(ids), err
}

func projectionNames(ctx context.Context, pool *pgxpool.Pool, _ string) ([]string, error) {
	all, err := rebuild.Projections(ctx, pool)
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names, err
}

func fingerprints(ctx context.Context, pool *pgxpool.Pool, _ string) ([]string, error) {
	causes, err := failed.Causes(ctx, pool, failed.CauseFilter{Limit: completions})
	var values []string
	for _, c := range causes {
		values = append(values, c.Fingerprint)
	}
	slices.Sort(values)
	return slices.Compact(values), err
}
