package command

import (
	"os"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
)

// Keys of a projection across campaigns are repaired by the commands for failed campaigns.
func TestCommandsRepairKeysOfProjectionsAcrossCampaigns(t *testing.T) {
	t.Parallel()
	url := database(t, "failed.sql")
	change(t, url, `INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state, scope,
			own_reset) VALUES ('board', 'default', 1, 'public', '{board}', 'active', 'journal', true);
		INSERT INTO tidemark.readers (topic, publisher, position, kind) VALUES ('board', '#0', 3, 'projection');
		INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status, attempt_count,
			next_attempt_at, error_class, error_code, error_message, first_failed_at, last_failed_at)
		VALUES ('bob', 'board', 'default', 2, 'dead', 1, 'infinity', 'transient', 'error', 'x', now(), now())`)
	for _, one := range []struct {
		args string
		want []string
	}{
		{"failed show board bob", []string{"key", "position 2", " of campaign "}},
		{"failed requeue board bob", []string{"Requeued board in bob"}},
		{"failed resolve board bob --seq 2 --reason test", []string{"board goes on in bob without event 2"}},
		{"failed resolutions --projection board", []string{"bob", "2", "test"}},
		{"failed unresolve board bob --seq 2 --reason test", []string{"board applies bob again"}},
		{"campaign replay bob --projection board", []string{"Replay begun"}},
		{"group replay default --projection board", []string{"Operation"}},
		{"projection places", []string{"board", "default", "no process"}},
	} {
		got := requireRun(t, url, one.args, cli.ExitOK, "")
		out := got.out + got.err
		for _, want := range one.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s shows\n%s\nwithout %q", one.args, out, want)
			}
		}
	}
}

func TestRowsAcrossCampaignsAreLookedAtByKey(t *testing.T) {
	t.Parallel()
	pool, _ := played(t)
	files, err := sqlfile.LoadDir(os.DirFS("testdata/across"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := projector.New(projector.Config{Pool: pool, Projections: files})
	if err != nil {
		t.Fatal(err)
	}
	drained(t, p)
	url := pool.Config().ConnString()
	change(t, url, `UPDATE totals SET points = 20 WHERE player = 'ada'`)
	for _, one := range []struct {
		args string
		code int
		want string
	}{
		{"campaign as-of --campaign ada --projection totals --seq 10", cli.ExitOK, "ada\t14\n"},
		{"campaign as-of --campaign - --projection totals --seq 10 --json", cli.ExitOK, `"points": 10`},
		{"campaign as-of --campaign bob --projection totals --time 2999-01-01T00:00:00Z", cli.ExitOK, "bob\t15\n"},
		{"campaign as-of --campaign bob --projection totals --time 1999-01-01T00:00:00Z", cli.ExitOK, "player\tpoints\n"},
		{"campaign as-of --campaign eve --projection totals --seq 10", cli.ExitOK, "Key eve has no row after position 10"},
		{"campaign as-of --campaign bob --seq 1", cli.ExitFailed, "no such projection"},
		{"campaign as-of --campaign bob --projection totals --seq 1 --time 1999-01-01T00:00:00Z", cli.ExitUsage, "Either"},
		{"campaign as-of --campaign bob --projection totals --seq 99999", cli.ExitFailed, "positions go up to"},
		{"campaign diff --campaign ada --projection totals --from 7 --to 10", cli.ExitOK, "points\t10\t14\n"},
		{"campaign why --campaign ada --projection totals --table totals", cli.ExitOK, "points\t21\t"},
		{
			"campaign why --campaign ada --projection totals --table totals", cli.ExitOK,
			"POSITION\tCAMPAIGN\tSEQ\tTYPE",
		},
		{
			"campaign why --campaign eve --projection totals --table totals --seq 10", cli.ExitOK,
			"no such row after position 10",
		},
		{"projection verify totals --campaign bob", cli.ExitOK, "key bob verified, "},
		{"projection verify totals --campaign ada", cli.ExitDifferences, "21"},
		{"projection verify totals", cli.ExitDifferences, "21"},
		{"projection verify totals", cli.ExitDifferences, "all keys verified, "},
	} {
		got := execute(t, url, false, one.args+" --projections-dir testdata/across")
		if out := got.out + got.err; got.code != one.code || !strings.Contains(out, one.want) {
			t.Errorf("%s: exit code %d:\n%s\nwant %d and %q", one.args, got.code, out, one.code, one.want)
		}
	}
	got := execute(t, url, false, "campaign as-of --campaign oak --seq 1 --time 1999-01-01T00:00:00Z"+projectionFiles)
	if got.code != cli.ExitUsage {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
	got = execute(t, url, false, "campaign as-of --campaign oak --time 1999-01-01T00:00:00Z"+projectionFiles)
	if got.code != cli.ExitUsage || !strings.Contains(got.err, "give --seq") {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
}
