package command

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// known is what the tests know of a command. Each new command needs an entry.
type known struct {
	command string // with its nouns

	// For a command that acts: the prepared database, the arguments, and the acts that
	// tidemark.operator_log has afterwards. With --dry-run, an act leaves no record.
	fixtures string // files of testdata
	prepare  func(t *testing.T) (url string)
	worker   bool // a worker runs the operations
	args     string
	log      []string
}

// acted returns an entry for a command that acts on files of testdata.
func acted(command, fixtures, args string, log ...string) known {
	return known{command: command, fixtures: fixtures, args: args, log: log}
}

func shows(command string) known { return known{command: command} }

// commands returns an entry for every command.
func commands() []known {
	const next, started = "failed.sql rebuilding.sql", "operation_started"
	return []known{
		shows("status"), shows("doctor"), shows("lag"), shows("audit"),
		shows("outbox list"), shows("outbox report"),
		acted("outbox requeue", "failed.sql", "oak 2", "failed_requeued oak 2"),
		shows("failed list"), shows("failed show"), shows("failed stats"), shows("failed log"),
		shows("failed resolutions"),
		acted("failed requeue", "failed.sql", "scores oak", "failed_requeued oak"),
		acted("failed requeue", "failed.sql", "--all", started),
		acted("failed resolve", "failed.sql", "scores oak --seq 2", "failed_resolved oak 2"),
		acted("failed resolve", "failed.sql", "--status dead --yes", started),
		acted("failed unresolve", "failed.sql", "scores oak --seq 3",
			"failed_unresolved oak 3"),
		shows("campaign list"), shows("campaign show"), shows("campaign as-of"), shows("campaign diff"), shows("campaign why"),
		{command: "campaign replay", prepare: replayable, args: "oak elm", log: []string{"campaign_replayed"}},
		{command: "group replay", prepare: replayable, args: "default", log: []string{started}},
		{
			command: "campaign repair-gap", prepare: replayable, args: "oak",
			log: []string{"gaps_repaired oak"},
		},
		acted("campaign pause", "failed.sql", "oak", "paused oak"),
		acted("campaign resume", "failed.sql paused.sql", "elm", "resumed elm"),
		shows("projection list"),
		{
			command: "projection verify", prepare: edited, args: "scores --repair" + projectionFiles,
			log: []string{"campaign_replayed oak"},
		},
		acted("projection pause", "failed.sql", "scores", "paused"),
		acted("projection resume", "failed.sql paused.sql", "scores", "resumed"),
		acted("projection rebuild", "failed.sql", "scores", "rebuild_started"),
		acted("projection rebuild", next, "scores --max-share 1", "rebuild_started"),
		acted("projection pause-rebuild", next, "scores", "rebuild_paused"),
		acted("projection resume-rebuild", next+" rebuilding-paused.sql", "scores", "rebuild_resumed"),
		acted("projection swap-rebuild", next, "scores --allow-failed 1", "rebuild_swap_requested"),
		acted("projection abort-rebuild", next, "scores --yes", "rebuild_aborted"),
		{
			command: "projection rollback", prepare: exchanged, worker: true, args: "counted --yes",
			log: []string{"projection_rolled_back"},
		},
		acted("projection remove", next, "scores --yes", "projection_removed"),
		shows("group list"), shows("group pauses"),
		acted("group pause", "failed.sql", "default", "paused"),
		acted("group resume", "failed.sql paused.sql", "search", "resumed"),
		acted("group remove", "failed.sql", "search --yes", "group_removed"),
		shows("gaps detect"),
		acted("gaps repair", "failed.sql paused.sql", "search --yes", started),
		shows("publisher list"), shows("publisher show"), shows("publisher ghosts"), shows("publisher log"),
		shows("publisher parked list"), shows("publisher parked show"),
		acted("publisher pause", "published.sql", "archive", "publisher_paused", "publisher_paused"),
		acted("publisher resume", "published.sql", "archive", "publisher_resumed"),
		acted("publisher reset", "published.sql", "archive --topic orders --position 0 --yes", "publisher_reset"),
		acted("publisher parked retry", "published.sql", "archive oak 2", "parked_retried oak 2"),
		acted("publisher parked retry", "published.sql", "--campaign oak", started+" oak"),
		acted("publisher parked resolve", "published.sql", "archive oak 2 --yes", "parked_resolved oak 2"),
		acted("publisher parked resolve", "published.sql", "--campaign oak --yes", started+" oak"),
		acted("publisher replay", "published.sql", "archive oak --topic orders --from 2 --yes", started+" oak"),
		// An import appends with an application's rights only, so the journal itself is its record.
		shows("events import"), shows("events export"), shows("events query"),
		acted("keys rotate", "", "--wrapping-keys-secret a:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", "keys_rotated"),
		acted("keys trust", "", "a --yes --reason test --wrapping-keys-secret a:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", "wrapping_key_recorded by LOGIN since", "wrapping_key_trusted"),
		acted("keys delete", "keys.sql", "01a21831-0aaf-7001-9512-0e2cf06179e0 --yes --reason test", "key_deleted"),
		acted("copy repair", "failed.sql", "", "copy_repaired"), shows("gaps late"),
		shows("catalogue check"), shows("workers list"),
		acted("workers drain", "failed.sql", "w1 --yes", "worker_drained"),
		{command: "workers undrain", prepare: drainedWorker, args: "w1", log: []string{"worker_undrained"}},
		shows("operation list"), shows("operation show"),
		acted("operation abort", "failed.sql operations.sql", "1", "operation_aborted"),
		shows("projection places"), shows("scheduled list"), shows("scheduled show"),
		acted("campaign erase", "failed.sql", "oak --yes --reason test", "erased oak", "erasure_begun oak"),
		acted("campaign archive", "failed.sql", "oak --archive-url file://"+os.TempDir(), "archived oak"),
		acted("campaign restore", "failed.sql", "oak --archive-url file://"+os.TempDir(), "restored oak"),
		acted("subject erase", "tagged.sql", "who=ann --yes --reason test", "erased", "erasure_begun"), shows("erase verify"), shows("erase list"),
		acted("erase abandon", "killed.sql", "1 --yes --reason test", "erasure_begun gone", "erasure_abandoned"),
		shows("campaign policies"),
		shows("campaign requests"),
		acted("scheduled reschedule", "failed.sql scheduled.sql", "1 --due 2999-01-01T00:00:00Z", "rescheduled oak"),
		acted("scheduled cancel", "failed.sql scheduled.sql", "1 --yes", "scheduled_cancelled oak"),
		shows("token list"),
		acted("token create", "", "eve --role operator", "token_created"),
		{command: "token revoke", prepare: entrusted, args: "eve", log: []string{"token_revoked"}},
	}
}

// leaves returns the commands without subcommands by name.
func leaves(of *cobra.Command) map[string]*cobra.Command {
	found := map[string]*cobra.Command{}
	for _, c := range of.Commands() {
		if !c.HasSubCommands() {
			found[strings.TrimPrefix(c.CommandPath(), "tidemark ")] = c
		}
		for name, leaf := range leaves(c) {
			found[name] = leaf
		}
	}
	return found
}

func TestEveryActOfACommandIsInTheOperatorsLog(t *testing.T) {
	t.Parallel()
	all := leaves(newRoot(environment("", false, nil, nil), stock()))
	filled := map[string]string{} // URLs by fixture files
	sessions := pgtest.Sessions()
	for i, k := range commands() {
		c := all[k.command]
		if c == nil {
			t.Errorf("there is no command %q", k.command)
			continue
		}
		if acts := c.Flags().Lookup("by") != nil && c.Flags().Lookup("reason") != nil; acts != (len(k.log) > 0) {
			t.Errorf("%s acts: %t, and leaves %q in the log", k.command, acts, k.log)
			continue
		}
		if len(k.log) == 0 {
			continue
		}
		if k.prepare == nil {
			if filled[k.fixtures] == "" {
				filled[k.fixtures] = ready(t, database(t, strings.Fields(k.fixtures)...))
			}
			url := filled[k.fixtures]
			k.prepare = func(*testing.T) string { return url }
		} else {
			prepare := k.prepare
			k.prepare = func(t *testing.T) string { t.Helper(); return ready(t, prepare(t)) }
		}
		t.Run(k.command+" "+k.args, func(t *testing.T) {
			t.Parallel()
			isInTheLog(t, k, c, sessions[i%len(sessions)])
		})
	}
	for name := range all {
		if !slices.ContainsFunc(commands(), func(k known) bool { return k.command == name }) {
			t.Errorf("command %q is new: say here what it does", name)
		}
	}
}

// isInTheLog runs an act in one kind of session, on a copy of the prepared database. Each act is done
// in every kind by tests of internal/admin and of internal/surface/pages.
func isInTheLog(t *testing.T, k known, c *cobra.Command, session pgtest.Session) {
	t.Helper()
	url := share(t, session.Open(t, pgtest.CopyURL(t, k.prepare(t))))
	if k.worker {
		operate(t, url)
	}
	line := k.command + " " + k.args + " --by eve --reason because"
	if c.Flags().Lookup("dry-run") != nil {
		got := execute(t, url, false, line+" --dry-run")
		refused := got.code == cli.ExitUsage && strings.Contains(got.err, "--dry-run cannot be combined with")
		if !refused && got.code != cli.ExitOK && got.code != cli.ExitDifferences {
			t.Fatalf("a dry run ends with %d: %s", got.code, got.err)
		}
		if did := logged(t, url); len(did) > 0 {
			t.Errorf("a dry run leaves %q", did)
		}
	}
	before := lines(t, url, everything)
	change(t, url, refuseRecords)
	if got := execute(t, url, false, line); got.code == cli.ExitOK || !strings.Contains(got.err, "SQLSTATE P0001") {
		t.Errorf("without a record it ends with %d: %s", got.code, got.err)
	}
	if after := lines(t, url, everything); !slices.Equal(after, before) {
		t.Errorf("without a record it has changed something:\n%s\nwas\n%s", after, before)
	}
	change(t, url, `DROP TRIGGER refuse ON tidemark.operator_log`)
	if got := execute(t, url, false, line); got.code != cli.ExitOK && got.code != cli.ExitDifferences {
		t.Fatalf("it ends with %d: %s", got.code, got.err)
	}
	want := slices.Clone(k.log)
	for i := range want {
		if by, ok := strings.CutSuffix(want[i], " by LOGIN since"); ok { // a function of the database knows the login alone
			want[i] = by + " by " + lines(t, url, `SELECT session_user`)[0] + " since"
		} else {
			want[i] += " by eve since because"
		}
	}
	if did := logged(t, url); !slices.Equal(did, want) {
		t.Errorf("the log has %q, want %q", did, want)
	}
}

// ready empties the log of a database and closes its pool, because a database with connections
// cannot be copied.
func ready(t *testing.T, url string) string {
	t.Helper()
	change(t, url, forgetActs)
	poolOf(t, url).Close()
	return url
}

const (
	// forgetActs prunes the whole log, which only its owner can do.
	forgetActs = `UPDATE tidemark.operator_log_head SET pruned = link, pruned_hash = hash; DELETE
		FROM tidemark.operator_log`

	// refuseRecords makes every insert into the log fail.
	refuseRecords = `CREATE OR REPLACE FUNCTION refuse() RETURNS trigger
		LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no record today'; END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON tidemark.operator_log FOR EACH ROW EXECUTE FUNCTION refuse()`

	// everything returns all rows that acts change.
	everything = `SELECT 'failed ' || d::text FROM tidemark.failed d UNION ALL SELECT 'pause ' || p::text
		FROM tidemark.pauses p UNION ALL SELECT 'projection ' || p::text FROM tidemark.projections p
		UNION ALL SELECT 'rebuild ' || r::text FROM tidemark.rebuilds r UNION ALL SELECT 'group ' || g::text
			FROM tidemark.consumer_groups g UNION ALL SELECT 'work ' || o::text FROM tidemark.outbox o
		UNION ALL SELECT 'publication ' || p::text FROM tidemark.readers p UNION ALL SELECT 'parked ' || p::text
			FROM tidemark.parked p UNION ALL SELECT 'failure ' || f::text FROM tidemark.failure_log f
		UNION ALL SELECT 'token ' || t::text FROM tidemark.tokens t UNION ALL SELECT 'worker ' || w::text
			FROM tidemark.workers w
		UNION ALL SELECT 'operation ' || o::text FROM tidemark.operations o ORDER BY 1`
)

// logged returns the operators' acts in the log, oldest first.
func logged(t *testing.T, url string) []string {
	t.Helper()
	return lines(t, url, `SELECT concat_ws(' ', act, campaign_id, seq, 'by', actor, 'since', reason)
		FROM tidemark.operator_log WHERE act NOT LIKE 'events\_%' ORDER BY id`)
}

func replayable(t *testing.T) string {
	t.Helper()
	url, _ := withCounts(t)
	return url
}

// operate runs the operations that operators start, as a worker does, until the test ends.
func operate(t *testing.T, url string) {
	t.Helper()
	operateWith(t, url, admin.RunnerConfig{})
}

// operateWith is operate with the runner's configuration, for a worker with code or publishers.
func operateWith(t *testing.T, url string, cfg admin.RunnerConfig) {
	t.Helper()
	cfg.Pool, cfg.Owner, cfg.Interval = poolOf(t, url), "worker "+t.Name(), 20*time.Millisecond
	runner, err := admin.NewRunner(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ran := make(chan error, 1)
	go func() { ran <- runner.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ran; err != nil {
			t.Errorf("the runner ended with: %v", err)
		}
	})
}

// edited returns a database with a row that differs from the journal.
func edited(t *testing.T) string {
	t.Helper()
	pool, _ := played(t)
	url := pool.Config().ConnString()
	change(t, url, `UPDATE scores SET points = 99 WHERE campaign_id = 'oak' AND player = 'ada'`)
	return url
}

// drainedWorker returns a database with a drained worker.
func drainedWorker(t *testing.T) string {
	t.Helper()
	url := database(t, "failed.sql")
	requireRun(t, url, "workers drain w1 --yes", cli.ExitOK, "")
	return url
}

// entrusted returns a database with a token of eve.
func entrusted(t *testing.T) string {
	t.Helper()
	url := fresh(t)
	requireRun(t, url, "token create eve", cli.ExitOK, "")
	return url
}

// exchanged returns a database with the previous tables of a rebuilt projection.
func exchanged(t *testing.T) string {
	t.Helper()
	url, pool := withCounts(t)
	p, err := projector.New(projector.Config{
		Pool: pool, PollInterval: 100 * time.Millisecond,
		Projections: []projection.Projection{
			projection.Document[int]{
				Name: "counted", Version: 2,
				Fold: func(n *int, _ event.Event) error { *n++; return nil },
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	await(t, pool, `SELECT EXISTS (SELECT FROM tidemark.projections WHERE name = 'counted~previous')`)
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return url
}

// await waits until a query returns true.
func await(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		var so bool
		if err := pool.QueryRow(ctx, sql).Scan(&so); err != nil {
			t.Fatal(err)
		}
		if so {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}
