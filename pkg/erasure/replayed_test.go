package erasure_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// keyed is a projection across campaigns by customer. Its fold calls look before each event.
func keyed(look func(customer string)) projection.Projection {
	return projection.Document[sums]{
		Name: "keyed", Version: 1, Types: []string{"ordered"}, Scope: projection.ScopeJournal, Partitions: 2,
		Fold: func(doc *sums, e event.Event) error {
			o, err := event.Decode[order](e)
			look(o.Customer)
			if !e.Erased() {
				doc.Names, doc.Amount = append(doc.Names, o.Customer), doc.Amount+o.Amount
			}
			return err
		},
		Key: func(e event.Event) (string, error) {
			o, err := event.Decode[order](e)
			return o.Customer, err
		},
	}
}

// TestAnErasureMeetsReplaysOfKeys has keys of a projection across campaigns, of the erased person and of another one,
// replayed before, while and after the person is erased.
func TestAnErasureMeetsReplaysOfKeys(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"asked for before", "under way", "asked for after"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			for i := range 12 {
				s.order([]string{"oak", "elm", "yew"}[i%3], []string{"ann", "bob"}[i%2], 10+i)
			}
			var replaying atomic.Bool
			begun, goOn := make(chan struct{}, 100), make(chan struct{})
			p, err := projector.New(projector.Config{
				Pool: s.Pool, Catalogue: s.catalogue, NoListen: true, PollInterval: 100 * time.Millisecond, LeaseTTL: time.Second,
				Projections: []projection.Projection{keyed(func(customer string) {
					if replaying.Load() && customer == planted("ann") {
						begun <- struct{}{}
						<-goOn
					}
				})},
			})
			if err == nil {
				_, err = p.Drain(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			replay := func() {
				t.Helper()
				if err := pgx.BeginFunc(t.Context(), s.Pool, func(tx pgx.Tx) error {
					_, err := failed.Replay(t.Context(), tx, failed.ReplayRequest{
						Group: "default", Projection: "keyed", Campaigns: []string{planted("ann"), planted("bob")},
					}, failed.Act{By: "anna", Reason: "a test"})
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
			run := func() {
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- p.Run(ctx) }()
				t.Cleanup(func() {
					stop()
					if err := <-ended; err != nil {
						t.Error(err)
					}
				})
			}
			if name != "asked for after" {
				replay()
			}
			if name == "under way" {
				replaying.Store(true)
				run()
				<-begun
			}
			c := s.erase(erasure.Request{Subjects: []string{planted("ann")}})
			replaying.Store(false)
			close(goOn)
			if name == "asked for after" {
				replay()
			}
			if name != "under way" {
				run()
			}
			if report := s.verify(c); report.Rows > int64(len(s.everywhere(planted("ann")))) {
				t.Errorf("the search finds %+v", report.Searched)
			}
			s.within("the replays have ended", func() bool { return s.value(`SELECT count(*) FROM tidemark.failed`) == "0" })
			// The operator has typed the key, in the last case after it was erased.
			left := slices.DeleteFunc(s.everywhere(planted("ann")), func(table string) bool {
				return table == "tidemark.operator_log" || table == "tidemark.failure_log" && name == "asked for after"
			})
			if len(left) > 0 {
				t.Errorf("%v have the erased text", left)
			}
			if got := s.value(`SELECT string_agg(doc ->> 'amount', ' ') FROM tidemark_views.keyed WHERE doc::text LIKE '%planted-bob%'`); got !=
				"96" {
				t.Errorf("bob has ordered %s", got)
			}
		})
	}
}
