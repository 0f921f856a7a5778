package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/verification"
)

func newProjection(env *cli.Env) *cobra.Command {
	return cli.Noun("projection", "See, verify, rebuild, stop, resume and remove projections",
		newView(env, "listProjections"), verification.NewVerify(env, verification.Compiled{Operators: true}),
		newProjectionRebuild(env), newAct(env, "swapRebuild"), newAct(env, "pauseRebuild"),
		newAct(env, "resumeRebuild"), newAct(env, "abortRebuild"), newAct(env, "rollbackProjection"),
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
