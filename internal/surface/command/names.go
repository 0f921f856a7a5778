package command

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator/views"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// checkNames sets env.Check to refuse unknown names in filter flags. It skips commands that load their
// own code or publishers, which know other names.
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
	names := admin.NamesIn(value)
	if strings.Contains(command.Use, "PROJECTION CAMPAIGN") && names.Projection == "" {
		names.Projection = argument(command, "PROJECTION")
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

// completions is the maximum number of ids offered to a shell.
const completions = "50"

// source is a view and its column that has the names for a parameter.
type source struct {
	view, column string
	given        map[string][]string
}

// sources returns the sources by the parameters' "of" tag.
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

func (s source) names(ctx context.Context, pool *pgxpool.Pool, prefix string) (names []string, err error) {
	view := views.Named(s.view)
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
	found, err := view.Read(ctx, views.Reader{Pool: pool, Acts: admin.On(pool)}, in)
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
