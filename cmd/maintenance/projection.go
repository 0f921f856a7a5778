package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/cli"
	"github.com/tidemark-go/tidemark/internal/verification"
	"github.com/tidemark-go/tidemark/pkg/deferred"
	"github.com/tidemark-go/tidemark/pkg/outbox"
	"github.com/tidemark-go/tidemark/pkg/pause"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// projectionsVersion changes when a field goes or changes its meaning.
const projectionsVersion = 1

type projectionsJSON struct {
	Version     int              `json:"version"`
	Projections []projectionJSON `json:"projections"`
}

type projectionJSON struct {
	Name         string     `json:"name"`
	Group        string     `json:"group"`
	Version      int        `json:"version"`
	State        string     `json:"state"`
	Schema       string     `json:"schema"`
	Tables       []string   `json:"tables"`
	RegisteredAt time.Time  `json:"registered_at"`
	Failed       int64      `json:"failed"` // campaigns, as the next two
	Dead         int64      `json:"dead"`
	Rebuilding   int64      `json:"rebuilding"`
	LagEvents    int64      `json:"lag_events"` // appended and not applied by the projection
	Pause        *pauseJSON `json:"pause"`      // null: it is not paused
}

func newProjection(env *cli.Env) *cobra.Command {
	p := pausable{
		noun: "projection", example: "scores", names: projectionNames,
		what: "It is filed as behind in each campaign that moves on without it, and catches up when it is resumed; other projections go on.",
		target: func(ctx context.Context, pool *pgxpool.Pool, name string) (pause.Target, error) {
			found, err := registered(ctx, pool, name)
			return pause.Target{Group: found.Group, Projection: name}, err
		},
	}
	return cli.Noun("projection", "See, verify, backfill, rebuild, stop, resume and remove projections",
		newProjectionList(env), verification.NewVerify(env, verification.Compiled{}), newProjectionBackfill(env), newProjectionRebuild(env), newProjectionRollback(env), newPause(env, p), newResume(env, p),
		newProjectionRemove(env))
}

// registered looks a projection up.
func registered(ctx context.Context, pool *pgxpool.Pool, name string) (projector.Registered, error) {
	all, err := projector.Projections(ctx, pool)
	if err != nil {
		return projector.Registered{}, err
	}
	var names []string
	for _, p := range all {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	known := "none is registered yet, the first worker does that"
	if len(names) > 0 {
		known = "there are " + strings.Join(names, ", ")
	}
	return projector.Registered{}, cli.Hint(fmt.Errorf("no projection %q: %s", name, known), "maintenance projection list")
}

func newProjectionList(env *cli.Env) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:     "list",
		Short:   "List the projections that the database knows, with the campaigns in which they are behind, and by how many events",
		Example: `  maintenance projection list`,
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				document, err := readProjections(ctx, pool)
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(document)
				}
				return printProjections(env, document)
			})
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return command
}

func readProjections(ctx context.Context, pool *pgxpool.Pool) (projectionsJSON, error) {
	document := projectionsJSON{Version: projectionsVersion, Projections: []projectionJSON{}}
	all, err := projector.Projections(ctx, pool)
	if err != nil {
		return document, err
	}
	pauses, err := pause.List(ctx, pool, "")
	if err != nil {
		return document, err
	}
	lags, err := outbox.Lag(ctx, pool)
	if err != nil {
		return document, err
	}
	for _, p := range all {
		projection := projectionJSON{
			Name: p.Name, Group: p.Group, Version: p.Version, State: p.State, Schema: p.Schema, Tables: p.Tables, RegisteredAt: p.RegisteredAt.UTC(),
		}
		for status, n := range map[deferred.Status]*int64{deferred.Failed: &projection.Failed, deferred.Dead: &projection.Dead, deferred.Rebuilding: &projection.Rebuilding} {
			if *n, err = deferred.Count(ctx, pool, deferred.Filter{Projection: p.Name, Status: []deferred.Status{status}}); err != nil {
				return document, err
			}
		}
		for _, lag := range lags {
			if lag.Group == p.Group && lag.Projection == p.Name {
				projection.LagEvents = lag.Events
			}
		}
		for i, documented := range pauseDocuments(pauses) {
			if pauses[i].Target == (pause.Target{Group: p.Group, Projection: p.Name}) {
				projection.Pause = &documented
			}
		}
		document.Projections = append(document.Projections, projection)
	}
	return document, nil
}

func printProjections(env *cli.Env, document projectionsJSON) error {
	if len(document.Projections) == 0 {
		env.Note("No projection yet: the first worker registers its own.")
		return nil
	}
	var rows [][]cli.Cell
	for _, p := range document.Projections {
		paused := cli.Text("")
		if p.Pause != nil {
			paused = cli.Cell{Text: pauseText(p.Pause.By, p.Pause.ExpiresAt, p.Pause.Reason), Tone: cli.Warning}
		}
		var tables []string
		for _, name := range p.Tables {
			tables = append(tables, p.Schema+"."+name)
		}
		rows = append(rows, []cli.Cell{
			cli.Text(p.Name), cli.Text(p.Group), cli.Number(int64(p.Version), cli.Plain), cli.Text(p.State), cli.Number(p.Failed, cli.Warning), cli.Number(p.Dead, cli.Alarm),
			cli.Number(p.Rebuilding, cli.Plain), cli.Number(p.LagEvents, cli.Plain), cli.Text(strings.Join(tables, " ")), paused,
		})
	}
	return env.PrintTable([]string{"PROJECTION", "GROUP", "VERSION", "STATE", "FAILED", "DEAD", "REBUILDING", "LAG", "TABLES", "PAUSED"}, rows)
}
