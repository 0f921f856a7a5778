package command

import (
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// Keys of a projection across campaigns are repaired by the commands for failed campaigns.
func TestCommandsRepairKeysOfProjectionsAcrossCampaigns(t *testing.T) {
	t.Parallel()
	url := database(t, "deferred.sql")
	change(t, url, `INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state, scope,
			own_reset) VALUES ('board', 'default', 1, 'public', '{board}', 'active', 'journal', true);
		INSERT INTO tidemark.readers (topic, publisher, position, kind) VALUES ('board', '#0', 3, 'projection');
		INSERT INTO tidemark.deferred (campaign_id, projection, consumer_group, next_seq, status, attempt_count,
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
