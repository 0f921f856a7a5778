package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// routesFile writes a file with publisher archive, which writes to a table, and a publisher whose
// schema does not exist.
func routesFile(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "publishers.yaml")
	text := fmt.Sprintf(`
topics:
  orders: {event_types: [order_placed]}
  none: {event_types: [order_shipped]}
publishers:
  archive: {topics: [orders], sink: {url: %[1]q, table: sent}}
  broken: {topics: [orders], sink: {url: %[1]q, table: nowhere.sent}}
`, url)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// sent returns the ids of the events in the table, in order.
func sent(t *testing.T, url string) (ids []string) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	rows, err := pool.Query(t.Context(), "SELECT event_id::text FROM sent ORDER BY arrival")
	if err != nil {
		t.Fatal(err)
	}
	if ids, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		t.Fatal(err)
	}
	return ids
}

func TestTestSendSendsOneEventThatSaysWhatItIs(t *testing.T) {
	t.Parallel()
	url := database(t, "published.sql")
	with := " --by bob --reason trying --publishers " + routesFile(t, url)
	requireRun(t, url, "publisher test-send archive --dry-run"+with, cli.ExitOK, "nothing was changed")
	got := requireRun(t, url, "publisher test-send archive --json"+with, cli.ExitOK, "")
	document := decoded[admin.Sent](t, got.out)
	if !document.MadeUp || document.Type != "tidemark.test" {
		t.Errorf("got %s", got.out)
	}
	requireRun(t, url, "publisher test-send archive --campaign oak --seq 2"+with, cli.ExitOK, "The sink of archive has taken")
	if ids := sent(t, url); !slices.Equal(ids, []string{document.EventID, "00000000-0000-7000-8000-000000000002"}) {
		t.Errorf("%q have arrived", ids)
	}
	failed := execute(t, url, false, "publisher test-send broken"+with)
	if failed.code != cli.ExitFailed || !strings.Contains(failed.err, "sink ") {
		t.Errorf("exit code %d, %q", failed.code, failed.err)
	}
	want := []string{
		"test_sent orders/archive tidemark-test 1 by bob since trying",
		"test_sent orders/archive oak 2 by bob since trying", "test_sent orders/broken tidemark-test 1 by bob since trying",
	}
	if did := publisherActs(t, url); !slices.Equal(did, want) {
		t.Errorf("the log has %q, want %q", did, want)
	}
}

// TestReplaySendsASliceAgainInOrderWithTheSameIDs runs a worker that has the publisher.
func TestReplaySendsASliceAgainInOrderWithTheSameIDs(t *testing.T) {
	t.Parallel()
	url, sink := database(t, "published.sql"), &kept{}
	worker := admin.RunnerConfig{
		Topics:     []publisher.Topic{{Name: "orders", Filter: publisher.Filter{EventTypes: []string{"order_placed"}}}},
		Publishers: []publisher.Publisher{{Name: "archive", Sink: sink, Topics: []string{"orders"}}},
	}
	operateWith(t, url, worker)
	with := " --topic orders --by bob --reason trying"
	requireRun(t, url, "publisher replay archive oak --from 2 --dry-run"+with, cli.ExitOK,
		"This would send those of events 2 to 3 of oak to archive again that are of the topic; nothing was changed")
	requireRun(t, url, "publisher replay archive oak --from 2 --yes --wait"+with, cli.ExitOK, "is done: 2 done")
	requireRun(t, url, "publisher replay archive oak --from 1 --until 1 --yes --wait"+with, cli.ExitOK, "is done: 1 done")
	if ids := []string{
		"00000000-0000-7000-8000-000000000002",
		"00000000-0000-7000-8000-000000000003", "00000000-0000-7000-8000-000000000001",
	}; !slices.Equal(sink.ids, ids) {
		t.Errorf("%q have arrived", sink.ids)
	}
	did := publisherActs(t, url)
	if len(did) != 6 || did[0] != "operation_started orders/archive oak by bob since trying" ||
		did[1] != "replay_started orders/archive oak 2 by bob since trying (operation N)" {
		t.Errorf("the log has %q", did)
	}
}

// kept is a sink that keeps the ids of events.
type kept struct{ ids []string }

func (*kept) Name() string { return "kept" }

func (k *kept) Publish(_ context.Context, events []publisher.Event) error {
	for _, e := range events {
		k.ids = append(k.ids, e.ID.String())
	}
	return nil
}
