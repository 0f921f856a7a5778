package command

import (
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// TestRequeueThatWaitsSaysWhatFailedAgain has each requeued campaign fail at once, as a worker does.
func TestRequeueThatWaitsSaysWhatFailedAgain(t *testing.T) {
	t.Parallel()
	url := database(t, "failed.sql")
	change(t, url, `CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			NEW.status := 'dead'; NEW.next_attempt_at := 'infinity'; NEW.attempt_count := 1; RETURN NEW; END $$;
		CREATE TRIGGER fails BEFORE UPDATE ON tidemark.failed FOR EACH ROW WHEN (NEW.status = 'failed')
			EXECUTE FUNCTION fails()`)
	operate(t, url)
	got := requireRun(t, url, "failed requeue --projection scores --yes --wait", cli.ExitPartial,
		"2 queued again, 0 skipped, 0 failed. Since then 0 got past it, 2 failed again, 0 wait.")
	if want := "2 of the 2 that were queued again failed again"; !strings.Contains(got.err, want) {
		t.Errorf("%q does not say %q", got.err, want)
	}
}
