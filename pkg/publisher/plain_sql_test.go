package publisher_test

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// byHand returns the statement of docs/guides/publishing.md whose comment starts with the given
// text.
func byHand(t *testing.T, comment string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/guides/publishing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## SQL by hand")
	_, block, _ := strings.Cut(section, "```sql\n")
	block, _, _ = strings.Cut(block, "```")
	for statement := range strings.SplitSeq(block, ";\n") {
		if statement = strings.TrimSpace(statement); strings.HasPrefix(statement, "-- "+comment) {
			return statement
		}
	}
	t.Fatalf("the documentation has no statement %q", comment)
	return ""
}

// TestWhatIsDocumentedAsPlainSQLDoesWhatItSays runs the documented statements beside a relay.
func TestWhatIsDocumentedAsPlainSQLDoesWhatItSays(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var lifted atomic.Bool
	sink := &memory.Sink{Refuse: func(e publisher.Event) (error, bool) {
		if e.CampaignID == "b" && e.Seq == 2 && !lifted.Load() {
			return errors.New("no"), true
		}
		return nil, false
	}}
	start(t, quick(pool, sink, func(c *publisher.Config, p *publisher.Publisher) {
		c.Topics, p.Name, p.Topics = []publisher.Topic{{Name: "orders"}}, "archive", []string{"orders"}
	}))
	exec := func(comment string) {
		t.Helper()
		mustExec(t, pool, byHand(t, comment))
	}
	holds := func(condition string) func() bool {
		return func() bool {
			return query[bool](t, pool, "SELECT count(*) = 1 FROM tidemark.readers WHERE "+condition)
		}
	}
	appendTo(t, pool, 3, "a", "b")
	eventually(t, "an event is parked", func() bool {
		return holds("position = 6")() && query[int](t, pool,
			"SELECT count(*) FROM tidemark.parked WHERE status = 'parked'") == 1
	})
	exec("How far")

	exec("Pause.")
	eventually(t, "the pair is given back", holds("status = 'PAUSED' AND expires_at = '-infinity'"))
	appendTo(t, pool, 1, "a")
	if list, err := publications.List(t.Context(), pool, publications.Key{}); err != nil || list[0].Status != "PAUSED" ||
		list[0].Reason != "maintenance of the broker" || list[0].Behind != 1 {
		t.Errorf("the pair is %+v, %v", list, err)
	}
	if n := len(of(sink, "a")); n != 3 {
		t.Errorf("%d events have arrived of a pair that is paused", n)
	}
	exec("Resume")
	eventually(t, "it goes on", func() bool { return len(of(sink, "a")) == 4 })

	lifted.Store(true)
	exec("Try parked")
	eventually(t, "what was parked has arrived", func() bool {
		return len(of(sink, "b")) == 3 && query[int](t, pool, "SELECT count(*) FROM tidemark.parked") == 0
	})

	eventually(t, "the place is written", holds("position = 7"))
	mustExec(t, pool, "UPDATE tidemark.readers SET status = 'FAILED', error_count = 3, last_error = 'x'")
	eventually(t, "the pair is given back", holds("expires_at = '-infinity'"))
	mustExec(t, pool, strings.Replace(byHand(t, "Reset a pair"), "SET status", "SET position = 2, status", 1))
	eventually(t, "all behind the position has arrived again", func() bool { return len(sink.Received()) == 7+5 })
	if !holds("status = 'ACTIVE' AND error_count = 0 AND last_error IS NULL")() {
		t.Error("the pair has not forgotten its failure")
	}
}
