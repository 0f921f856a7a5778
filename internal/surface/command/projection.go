package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/deferred"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/verification"
)

// projectionState is a projection with what it is behind by.
type projectionState struct {
	rebuild.Registered
	Failed     int64 // campaigns, as the next two
	Dead       int64
	Rebuilding int64
	Behind     int64        // events that are appended and not applied
	Pause      *pause.Pause // nil: it is not paused
}

func newProjection(env *cli.Env) *cobra.Command {
	return cli.Noun("projection", "See, verify, backfill, rebuild, stop, resume and remove projections",
		newProjectionList(env), verification.NewVerify(env, verification.Compiled{Operators: true}),
		newProjectionBackfill(env), newProjectionRebuild(env), newAct(env, "swapRebuild"), newAct(env, "pauseRebuild"),
		newAct(env, "resumeRebuild"), newAct(env, "abortRebuild"), newProjectionRollback(env),
		newAct(env, "pauseProjection"), newAct(env, "resumeProjection"), newAct(env, "removeProjection"))
}

// registered looks a projection up.
func registered(ctx context.Context, pool *pgxpool.Pool, name string) (rebuild.Registered, error) {
	all, err := rebuild.Projections(ctx, pool)
	if err != nil {
		return rebuild.Registered{}, err
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
	return rebuild.Registered{}, cli.Hint(fmt.Errorf("no projection %q: %s", name, known), "tidemark projection list")
}

func newProjectionList(env *cli.Env) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use: "list",
		Short: "List the projections that the database knows, with the campaigns in which they are behind, and by how " +
			"many events",
		Example: `  tidemark projection list`,
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				states, err := readProjections(ctx, pool)
				if err != nil {
					return err
				}
				if asJSON {
					return env.PrintJSON(operator.All(states))
				}
				return printProjections(env, states)
			})
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return command
}

func readProjections(ctx context.Context, pool *pgxpool.Pool) (states []projectionState, err error) {
	all, err := rebuild.Projections(ctx, pool)
	if err != nil {
		return nil, err
	}
	pauses, err := pause.List(ctx, pool, "")
	if err != nil {
		return nil, err
	}
	lags, err := outbox.Lag(ctx, pool)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		state := projectionState{Registered: p}
		for status, n := range map[deferred.Status]*int64{
			deferred.Failed: &state.Failed, deferred.Dead: &state.Dead,
			deferred.Rebuilding: &state.Rebuilding,
		} {
			if *n, err = deferred.Count(ctx, pool, deferred.Filter{
				Projection: p.Name,
				Status:     []deferred.Status{status},
			}); err != nil {
				return nil, err
			}
		}
		for _, lag := range lags {
			if lag.Group == p.Group && lag.Projection == p.Name {
				state.Behind = lag.Events
			}
		}
		for _, paused := range pauses {
			if paused.Target == (pause.Target{Group: p.Group, Projection: p.Name}) {
				state.Pause = &paused
			}
		}
		states = append(states, state)
	}
	return states, nil
}

func printProjections(env *cli.Env, projections []projectionState) error {
	if len(projections) == 0 {
		env.Note("No projection yet: the first worker registers its own.")
		return nil
	}
	var rows [][]cli.Cell
	for _, p := range projections {
		paused := cli.Text("")
		if p.Pause != nil {
			paused = cli.Cell{Text: pauseText(*p.Pause), Tone: cli.Warning}
		}
		var tables []string
		for _, name := range p.Tables {
			tables = append(tables, p.Schema+"."+name)
		}
		rows = append(rows, []cli.Cell{
			cli.Text(p.Name), cli.Text(p.Group), cli.Number(int64(p.Version), cli.Plain), cli.Text(p.State),
			cli.Number(p.Failed, cli.Warning), cli.Number(p.Dead, cli.Alarm),
			cli.Number(p.Rebuilding, cli.Plain), cli.Number(p.Behind, cli.Plain), cli.Text(strings.Join(tables, " ")), paused,
		})
	}
	return env.PrintTable([]string{
		"PROJECTION", "GROUP", "VERSION", "STATE", "FAILED", "DEAD", "REBUILDING", "LAG",
		"TABLES", "PAUSED",
	}, rows)
}
