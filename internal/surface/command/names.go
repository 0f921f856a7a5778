package command

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
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
const completions = "50"

// source is the view that lists what parameters name, and the column that has the names.
type source struct {
	view, column string
	given        map[string][]string
}

// sources answers them by the tags of parameters. Few campaigns failed, or have something that was refused: it is those
// that a user looks for.
func sources() map[string]source {
	return map[string]source{
		"campaign":    {view: "listCampaigns", column: "CAMPAIGN"},
		"group":       {view: "listGroups", column: "GROUP"},
		"worker":      {view: "listWorkers", column: "OWNER"},
		"failed":      {"listFailed", "CAMPAIGN", map[string][]string{"status": {"failed", "dead"}}},
		"fingerprint": {view: "listFailureCauses", column: "FINGERPRINT"},
		"topic":       {view: "listPublishers", column: "TOPIC"},
		"publisher":   {view: "listPublishers", column: "PUBLISHER"},
		"parked":      {view: "listParked", column: "CAMPAIGN"},
		"operation":   {view: "listOperations", column: "ID"},
		"token":       {view: "listTokens", column: "NAME"},
	}
}

// names reads them, each once.
func (s source) names(ctx context.Context, pool *pgxpool.Pool, prefix string) (names []string, err error) {
	view := operator.ViewNamed(s.view)
	in, err := view.Input(view.Params, func(name string) ([]string, bool) {
		switch name {
		case "prefix":
			return []string{prefix}, true
		case "limit":
			return []string{completions}, true
		}
		return s.given[name], s.given[name] != nil
	})
	if err != nil {
		return nil, err
	}
	found, err := view.Read(ctx, operator.Reader{Pool: pool, Acts: admin.On(pool)}, in)
	if err != nil {
		return nil, err
	}
	columns, rows := view.Table(found.Things)
	for _, row := range rows {
		names = append(names, row[slices.Index(columns, s.column)].Text)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// projectionNames reads the registry alone: the view counts what each projection is behind by.
func projectionNames(ctx context.Context, pool *pgxpool.Pool, _ string) (names []string, err error) {
	all, err := rebuild.Projections(ctx, pool)
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names, err
}
