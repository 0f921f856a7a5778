package failover_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// TestPublishersSendWhatTheDatabaseHas loses commits under a relay that has sent their events. A restart
// makes no ghosts.
func TestPublishersSendWhatTheDatabaseHas(t *testing.T) {
	t.Parallel()
	for name, begin := range losses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, sink := begin(t), &memory.Sink{}
			pool := tally.Pool(t, l.url, "test", 4)
			relay, err := publisher.New(publisher.Config{
				Pool: tally.Pool(t, l.url, "relay", publisher.Connections+1), LeaseTTL: 3 * time.Second,
				PollInterval: 100 * time.Millisecond, Topics: []publisher.Topic{{Name: "all"}},
				Publishers: []publisher.Publisher{{Name: "out", Sink: sink, Topics: []string{"all"}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- relay.Run(ctx) }()
			t.Cleanup(func() {
				if cancel(); <-ended != nil {
					t.Error("the relay ended with an error")
				}
			})
			sent := func(what string) {
				t.Helper()
				var ids []uuid.UUID
				for e, err := range journal.ReadAll(t.Context(), pool, 0) {
					if err != nil {
						t.Fatal(err)
					}
					ids = append(ids, e.ID)
				}
				tally.Eventually(t, what+" is sent", func(context.Context) (bool, error) {
					have := map[uuid.UUID]bool{}
					for _, e := range sink.Received() {
						have[e.ID] = true
					}
					for _, id := range ids {
						if !have[id] {
							return false, nil
						}
					}
					return true, nil
				})
			}
			add(t, pool, "kept", 3, 2)
			sent("what is kept")
			l.forget(t)
			answers(t, pool)
			add(t, pool, "lost", 3, 3)
			sent("what is lost")
			l.lose(t)
			answers(t, pool)
			add(t, pool, "new", 4, 3)
			sent("what is new")
			tally.Eventually(t, "the relay is at the end", tally.Holds(pool, `SELECT bool_and(r.position >= (SELECT
				max(position) FROM tidemark.journal)) AND count(*) = 1 FROM tidemark.readers r`))
			ghosts := func(ctx context.Context) int {
				list, err := publications.ListGhosts(ctx, pool, publications.GhostFilter{Publisher: "out"})
				if err != nil {
					t.Fatal(err)
				}
				return len(list)
			}
			if !l.kept {
				tally.Eventually(t, "the lost events are ghosts", func(ctx context.Context) (bool, error) {
					return ghosts(ctx) == 12, nil
				})
			} else if n := ghosts(t.Context()); n > 0 {
				t.Errorf("a restart makes %d ghosts", n)
			}
		})
	}
}
