package command

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/pflag"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/progress"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
)

// rebuildInterval is the minimum poll interval. Each poll reads all failed campaigns of the rebuild, so
// it must not load the database.
const rebuildInterval = time.Second

// rebuildState is the progress or the end of a rebuild.
type rebuildState struct {
	Act           string // progress, swapped, gone
	Projection    string
	Rebuild       *rebuild.Rebuild // nil: ended
	EventsASecond float64          // since the rebuild became active
	SecondsLeft   *float64         // at that rate; nil: unknown
}

func (s rebuildState) print(env *cli.Env) error {
	if r := s.Rebuild; r != nil && r.ActiveAt != nil && r.Events > r.LeftEvents {
		s.EventsASecond = float64(r.Events-r.LeftEvents) / max(r.At.Sub(*r.ActiveAt).Seconds(), 1e-3)
		s.SecondsLeft = new(float64(r.LeftEvents) / s.EventsASecond)
	}
	return env.PrintJSONLine(document.One(s))
}

type awaited struct {
	name   string
	asJSON bool
}

// rebuildCommand implements --wait.
func rebuildCommand(env *cli.Env) extra {
	flags := func(flags *pflag.FlagSet) {
		flags.Lookup("json").Usage = "write JSON; with --wait, one line a second"
	}
	after := func(ctx context.Context, c *actCommand, pool *pgxpool.Pool, name string, done *admin.Outcome) error {
		c.sayIfIdle(ctx, pool)
		switch {
		case c.wait:
			return awaited{name, c.asJSON}.await(ctx, env, pool)
		case c.asJSON:
			return env.PrintJSON(done)
		}
		env.Note("Workers rebuild projection %[1]s now; to follow it: tidemark projection rebuild "+
			"%[1]s --wait", table.Quote(name))
		return nil
	}
	return extra{flags: flags, after: after}
}

func (r awaited) await(ctx context.Context, env *cli.Env, pool *pgxpool.Pool) error {
	var meter *progress.Meter
	var last rebuild.Rebuild
	verifies := false
	for {
		start := time.Now()
		all, err := rebuild.Rebuilds(ctx, pool, r.name)
		switch {
		case ctx.Err() != nil:
			return r.interrupted()
		case err != nil:
			return err
		case len(all) == 0:
			if meter != nil {
				meter.Set(last.Campaigns, last.Events)
				meter.Done()
			}
			return r.ended(ctx, env, pool, last)
		}
		now := all[0]
		switch {
		case r.asJSON:
			if err := (rebuildState{Act: "progress", Projection: r.name, Rebuild: &now}).print(env); err != nil {
				return err
			}
		case now.ActiveAt != nil:
			if meter == nil {
				meter = progress.New(env.Err, "campaigns rebuilt", now.Campaigns)
			}
			if text := standstill(now); text != "" && text != standstill(last) {
				meter.Note(text)
			}
			if !verifies && now.State == "active" && now.Left+now.Failed+now.Dead == 0 && now.Verify > 0 &&
				standstill(now) == "" {
				verifies = true // said once: live events make campaigns fall behind for a moment
				meter.Note(fmt.Sprintf("All campaigns have caught up. Before the swap their rows are counted, and a sample "+
					"of %d campaigns is verified.", now.Verify))
			}
			meter.Set(max(0, now.Campaigns-now.Left-now.Failed-now.Dead), max(0, now.Events-now.LeftEvents))
		}
		last = now
		if untilNext(ctx, max(rebuildInterval, 5*time.Since(start))) != nil {
			return r.interrupted()
		}
	}
}

// standstill returns what blocks a rebuild; "": nothing known.
func standstill(r rebuild.Rebuild) string {
	switch {
	case r.Paused:
		return "The rebuild is paused."
	case r.Refusal != "":
		return "The tables are not swapped yet: " + r.Refusal
	case r.Failed+r.Dead > 0:
		return fmt.Sprintf("%d campaigns have failed and are retried, %d are dead: tidemark failed list "+
			"--projection %s", r.Failed, r.Dead, table.Quote(rebuild.NameOf(r.Projection)))
	}
	return ""
}

func (r awaited) interrupted() error {
	err := cli.Exitf(cli.ExitPartial, "stopped waiting; the rebuild continues")
	return cli.Hint(err, "tidemark projection rebuild %s --wait", table.Quote(r.name))
}

func (r awaited) ended(ctx context.Context, env *cli.Env, pool *pgxpool.Pool, last rebuild.Rebuild) error {
	found, err := admin.Registered(ctx, pool, r.name)
	if err != nil {
		return err
	}
	act := "swapped"
	if found.RegisteredAt.Before(last.StartedAt) {
		act = "gone" // the live tables are older than the rebuild
	}
	if r.asJSON {
		if err := (rebuildState{Act: act, Projection: r.name}).print(env); err != nil {
			return err
		}
	}
	if act == "gone" {
		return cli.Hint(cli.Exitf(cli.ExitConflict, "the rebuild of projection %s was aborted", r.name),
			"tidemark failed log --projection %s", table.Quote(r.name))
	}
	if !r.asJSON {
		env.Note("Projection %s is rebuilt and its tables are swapped; to go back: tidemark projection rollback %[1]s",
			table.Quote(r.name))
	}
	return nil
}
