package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

const (
	// resetSlack is how many more events than counted may be published again: some arrive during the confirmation.
	resetSlack = 100
)

// resetPair is a pair that is reset, or would be.
type resetPair struct {
	publications.Key
	admin.Reset
}

// resetting is a reset of pairs.
type resetting struct {
	choice                   pairChoice
	act                      cli.Act
	asJSON                   bool
	errors, beginning, atEnd bool
	position                 int64
	time                     string

	at time.Time // time, parsed
}

func newPublisherReset(env *cli.Env) *cobra.Command {
	var r resetting
	command := &cobra.Command{
		Use: "reset PUBLISHER",
		Short: "Have a publisher that has failed go on, publish again from an earlier place, or leave out what is before " +
			"a later one",
		Long: `Reset pairs of a publisher: they become active, and their errors are forgotten. With --errors
they go on where they stand. Taken back, they publish again what comes after the new place; taken ahead,
they never publish what is before it. What is under way is not written down any more, and is published
again.

Say which: --errors, --to-position, --to-time, --to-beginning or --to-end. --dry-run counts. It asks
before a single event is published again or left out. Parked events behind the new place are met again
and forgotten; campaigns that are parked before it stay so.`,
		Example: `  tidemark publisher reset archive --errors --reason 'disk is full no more'
  tidemark publisher reset archive --topic orders --to-time 2026-01-31T08:00:00Z --dry-run
  tidemark publisher reset archive --topic orders --to-position 4711 --reason 'the consumer lost a day'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := r.check(cmd.Flags().Changed("to-position")); err != nil {
				return err
			}
			return env.WithPool(cmd.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
				return r.run(ctx, env, pool, args[0])
			})
		},
	}
	r.choice.bind(env, command)
	r.act.BindMany(command.Flags())
	flags := command.Flags()
	flags.BoolVar(&r.errors, "errors", false, "forget errors, and stay")
	flags.Int64Var(&r.position, "to-position", 0, "go on after this position of the journal")
	flags.StringVar(&r.time, "to-time", "",
		"go on with the first event recorded at this time or later, such as 2026-01-31T08:00:00Z")
	flags.BoolVar(&r.beginning, "to-beginning", false, "publish all of the journal again")
	flags.BoolVar(&r.atEnd, "to-end", false, "go on with what is appended from now on")
	flags.BoolVar(&r.asJSON, "json", false, "write JSON")
	return command
}

// check wants exactly one place.
func (r *resetting) check(toPosition bool) error {
	places := 0
	for _, given := range []bool{r.errors, toPosition, r.time != "", r.beginning, r.atEnd} {
		if given {
			places++
		}
	}
	if places != 1 {
		return cli.Usagef("reset to where? Say one of --errors, --to-position, --to-time, --to-beginning, --to-end")
	}
	if r.position < 0 {
		return cli.Usagef("--to-position %d: positions start at 1, and 0 is before the first", r.position)
	}
	if r.time != "" {
		var err error
		if r.at, err = time.Parse(time.RFC3339, r.time); err != nil {
			return cli.Usagef("--to-time %q: write it as 2026-01-31T08:00:00Z", r.time)
		}
	}
	return nil
}

// target resolves the place once, so that what was counted and confirmed is what is done.
func (r *resetting) target(ctx context.Context, pool *pgxpool.Pool) (to publications.ResetTo, err error) {
	place := r.position // also of the beginning, which is 0
	switch {
	case r.errors:
		return to, nil
	case r.atEnd:
		place, err = journal.Floor(ctx, pool)
	case r.time != "":
		place, err = journal.PositionAt(ctx, pool, r.at)
	}
	return publications.ResetTo{Position: &place}, err
}

func (r *resetting) run(ctx context.Context, env *cli.Env, pool *pgxpool.Pool, name string) error {
	list, err := r.choice.find(ctx, pool, name)
	if err != nil {
		return err
	}
	to, err := r.target(ctx, pool)
	if err != nil {
		return err
	}
	keys := make([]publications.Key, len(list))
	for i, p := range list {
		keys[i] = p.Key
	}
	expected, err := r.expect(ctx, pool, keys, to)
	if err != nil {
		return err
	}
	sent, skipped := sums(expected)
	if r.act.DryRun {
		return r.tell(env, keys, expected, name)
	}
	if err := r.confirm(ctx, env, sent, skipped); err != nil {
		return err
	}
	done, err := admin.On(pool).ResetPublishers(ctx, by(r.act), keys, to, func(done []admin.Reset) error {
		nowSent, nowSkipped := sums(done)
		if nowSkipped > skipped || nowSent > sent+resetSlack {
			return cli.Exitf(cli.ExitConflict,
				"things have moved since they were counted: now %s would be published again and %s left out, not %d and %d; "+
					"nothing was changed",
				events(nowSent), events(nowSkipped), sent, skipped)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.tell(env, keys, done, name)
}

// confirm asks for the number of events.
func (r *resetting) confirm(ctx context.Context, env *cli.Env, sent, skipped int64) error {
	var what []string
	n := sent
	if sent > 0 {
		what = append(what, "publish "+events(sent)+" again")
	}
	if skipped > 0 {
		what = append(what, "never publish "+events(skipped))
		n = skipped
	}
	if skipped == 0 && sent == 0 {
		return nil
	}
	return env.Confirm(ctx, cli.Confirmation{What: strings.Join(what, " and "), Type: fmt.Sprint(n), Yes: r.act.Yes})
}

// expect answers what a reset of the pairs would do.
func (r *resetting) expect(
	ctx context.Context, pool *pgxpool.Pool, keys []publications.Key, to publications.ResetTo,
) (results []admin.Reset, err error) {
	for _, key := range keys {
		result, err := admin.On(pool).PreviewReset(ctx, by(r.act), key, to)
		if err != nil {
			return nil, err
		}
		results = append(results, result)
	}
	return results, nil
}

func sums(pairs []admin.Reset) (sent, skipped int64) {
	for _, p := range pairs {
		sent, skipped = sent+p.Sent, skipped+p.Skipped
	}
	return sent, skipped
}

func (r *resetting) tell(env *cli.Env, keys []publications.Key, results []admin.Reset, name string) error {
	done := make([]resetPair, len(keys))
	for i, p := range results {
		done[i] = resetPair{keys[i], p}
	}
	if r.asJSON {
		return printAct(env, admin.ActResetPublisher, r.act.DryRun, struct{ Pairs []resetPair }{done})
	}
	if r.act.DryRun {
		env.Note("%s would be reset; nothing was changed.", counted(int64(len(done)), "pair"))
	} else {
		env.Note("%s reset; what becomes of it: tidemark publisher show %s", counted(int64(len(done)), "pair"),
			cli.Quote(name))
	}
	var rows [][]cli.Cell
	for _, p := range done {
		rows = append(rows, []cli.Cell{
			cli.Text(p.Topic), cli.Text(p.Publisher), cli.Number(p.From, cli.Plain), cli.Number(p.To, cli.Plain),
			cli.Number(p.Sent, cli.Plain), cli.Number(p.Skipped, cli.Warning),
			cli.Number(p.Forgotten, cli.Plain),
		})
	}
	return env.PrintTable([]string{"TOPIC", "PUBLISHER", "FROM", "TO", "AGAIN", "NEVER", "FORGOTTEN"}, rows)
}
