package fencing_test

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	group   = "default"
	clients = 6
	rounds  = 60
	// checkTimeout limits the search for an order, which takes milliseconds.
	checkTimeout = 30 * time.Second
)

// campaigns are few, so that all clients compete for them.
const campaigns = "abc"

func TestLeasesAreLinearizable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ttl     time.Duration
		expires bool
	}{
		"when_they_outlive_the_test":              {ttl: time.Hour},
		"when_they_expire_in_their_owner's_hands": {ttl: 3 * time.Millisecond, expires: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			if err := outbox.Register(t.Context(), pool, group); err != nil {
				t.Fatal(err)
			}
			for _, campaign := range campaigns {
				tally.Append(t, pool, string(campaign), 1) // work that is never completed
			}
			began := time.Now()
			all := make([]*client, clients)
			g, ctx := errgroup.WithContext(t.Context())
			for i := range all {
				all[i] = newClient(i, pool, c.ttl, began, !c.expires)
				g.Go(func() error { return all[i].run(ctx, rounds) })
			}
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			var history []porcupine.Operation
			for _, c := range all {
				history = append(history, c.history...)
			}
			count := tried(history)
			t.Logf("%v", count)
			if count["claim"] < rounds || count["advance"] < rounds || count["advance refused"] < rounds {
				t.Errorf("the history proves little: %v", count)
			}
			if result := porcupine.CheckOperationsTimeout(model(c.expires), history, checkTimeout); result != porcupine.Ok {
				t.Errorf("the history of %d calls is not that of a fenced register: %s", len(history), result)
			}
		})
	}
}

// tried counts the calls of each kind, refused calls separately.
func tried(history []porcupine.Operation) map[string]int {
	count := map[string]int{}
	for _, op := range history {
		kind := op.Input.(operation).kind
		if !op.Output.(answer).ok {
			kind += " refused"
		}
		count[kind]++
	}
	return count
}
