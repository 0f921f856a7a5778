package publisher_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestWhatWasSentAndLostIsListed restores a backup under a relay that has sent more since, in
// rounds and in a drain.
func TestWhatWasSentAndLostIsListed(t *testing.T) {
	t.Parallel()
	pool, sink, registry := pgtest.New(t), &memory.Sink{}, prometheus.NewRegistry()
	appendTo(t, pool, 10, "a", "kept")
	start(t, quick(pool, sink, func(c *publisher.Config, _ *publisher.Publisher) {
		c.LeaseTTL, c.Registerer = time.Minute, registry
	}))
	eventually(t, "the first have arrived", func() bool { return position(t, pool) == 20 })
	b := takeBackup(t, pool)
	appendTo(t, pool, 3, "a", "gone")
	lost := committed(t, pool)[20:]
	eventually(t, "the next have arrived", func() bool { return hasAll(sink.Received(), lost) })
	b.restore(func(restored *pgxpool.Pool) {
		appendTo(t, restored, 2, "a")
		appendWith(t, restored, "gone", lost[4]) // the application repeats one event
	})
	ghosts := func() []publications.Ghost {
		list, err := publications.ListGhosts(t.Context(), pool, publications.GhostFilter{Topic: "all", Publisher: "out"})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	eventually(t, "ghosts are found", func() bool { return len(ghosts()) > 0 })
	var ids []uuid.UUID
	var found []string
	for _, g := range ghosts() {
		ids, found = append(ids, g.EventID), append(found,
			fmt.Sprintf("%s %d at %d: %s", g.CampaignID, g.Seq, g.Position, g.Now))
	}
	want := slices.Delete(slices.Clone(lost), 4, 5) // the repeated event is in the journal when the relay looks
	if !slices.Equal(ids, want) {
		t.Fatalf("ghosts are %v, want %v", ids, want)
	}
	if got, want := strings.Join(found, "; "),
		"a 11 at 21: another event; a 12 at 22: another event; a 13 at 23: nothing; gone 1 at 24: another event; gone 3 "+
			"at 26: nothing"; got != want {
		t.Errorf("ghosts are %s\nwant %s", got, want)
	}
	appendWith(t, pool, "later", uuid.New())
	appendWith(t, pool, "a", lost[2]) // repeated after the relay found the ghosts
	if got := ghosts()[2].Now; got != publications.GhostAgain {
		t.Errorf("%s stands at the place of an event that was appended again", got)
	}
	list, err := publications.List(t.Context(), pool, pairKey())
	if err != nil || len(list) != 1 || list[0].Ghosts != 5 || list[0].GhostsAt == nil {
		t.Errorf("the pair has %+v, %v", list, err)
	}
	if n := counted(t, registry, "tidemark_publish_ghosts_total"); n != 5 {
		t.Errorf("%v ghosts are counted, want 5", n)
	}
	first := ghosts()[0]
	rest, err := publications.ListGhosts(t.Context(), pool, publications.GhostFilter{After: &first, Limit: 2})
	if err != nil || len(rest) != 2 || rest[0].EventID != lost[1] {
		t.Errorf("after the first come %+v, %v", rest, err)
	}
}

func appendWith(t *testing.T, pool *pgxpool.Pool, campaign string, id uuid.UUID) {
	t.Helper()
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(t.Context(), tx, campaign, journal.Any,
			event.Event{ID: id, Type: "noted", Payload: []byte(`{}`)})
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// counted returns the sum of a counter.
func counted(t *testing.T, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}
