package erasure_test

import (
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/catalogue/yamlfile"
	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// basket is of several articles.
type basket struct {
	Articles []string `json:"articles"`
	Customer string   `json:"customer"`
}

const filled event.Type[basket] = "filled"

// baskets has a document for each article and each customer. Tea refuses what ann buys, and so does she.
func baskets() projection.Projection {
	return projection.Document[int]{
		Name: "baskets", Version: 1, Scope: projection.ScopeJournal, Partitions: 2,
		Keys: func(e event.Event) ([]string, error) {
			b, err := filled.Decode(e)
			if b.Customer != "" {
				b.Articles = append(b.Articles, b.Customer)
			}
			return b.Articles, err
		},
		On: event.Folds[int]{
			event.OnKey(filled, func(n *int, key string, _ event.Event, b basket) error {
				if b.Customer == planted("ann") && (key == "Green-Tea" || key == b.Customer) {
					return projection.Permanent(errNotSold)
				}
				*n++
				return nil
			}),
		},
	}
}

type notSold struct{}

func (notSold) Error() string { return "not sold" }

var errNotSold = notSold{}

// A resolution is for one of several keys. It keeps its key if the event still tells it, as nothing else says
// which was resolved. One without its key leaves the event out for all.
func TestAResolutionKeepsAKeyThatItsEventStillTells(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		resolved          []string
		personal          bool
		resolutions, docs string
	}{
		"of the article": {[]string{"Green-Tea"}, true, "Green-Tea", "Green-Tea 1, cups 2, planted-bob 1"},
		"of the customer too": {
			[]string{"Green-Tea", planted("ann")}, true, "Green-Tea, erased", "Green-Tea 1, cups 1, planted-bob 1",
		},
		"of an event that tells nothing more": {[]string{"Green-Tea"}, false, "erased", "Green-Tea 1, cups 1, planted-bob 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			types, err := yamlfile.Load(fstest.MapFS{"c.yaml": {Data: []byte(`types:
  filled:
    subject: [customer]
    personal: [customer]
`)}}, "c.yaml")
			if err != nil {
				t.Fatal(err)
			}
			s.catalogue = types
			s.fillBaskets()
			s.workOn(baskets())
			s.within("two keys have failed", func() bool {
				return s.value(`SELECT string_agg(campaign_id, ' ' ORDER BY campaign_id) FROM tidemark.failed WHERE status = 'dead'`) ==
					"Green-Tea "+planted("ann")
			})
			for _, key := range c.resolved {
				if err := pgx.BeginFunc(t.Context(), s.Pool, func(tx pgx.Tx) error {
					return failed.Resolve(t.Context(), tx, failed.Key{Projection: "baskets", CampaignID: key}, 1,
						failed.Act{By: "anna", Reason: "a test"})
				}); err != nil {
					t.Fatal(err)
				}
			}
			s.within("they go on", func() bool {
				return s.value(`SELECT count(*) FROM tidemark.failed WHERE campaign_id = 'Green-Tea'`) == "0"
			})
			report := s.verify(s.erase(erasure.Request{Subjects: []string{planted("ann")}, Personal: c.personal}))
			if report.Rows > 0 {
				t.Errorf("the search finds %d rows", report.Rows)
			}
			if found := s.everywhere(planted("ann")); found != nil {
				t.Errorf("the customer is found in %v", found)
			}
			if got := s.value(`SELECT string_agg(campaign_id, ', ' ORDER BY campaign_id COLLATE "C") FROM tidemark.resolutions`); got !=
				c.resolutions {
				t.Errorf("the resolutions are for %s, want %s", got, c.resolutions)
			}
			s.within("the documents are those of what is left: "+c.docs, func() bool {
				return s.value(`SELECT string_agg(key || ' ' || doc, ', ' ORDER BY key) FROM tidemark_views.baskets`) == c.docs
			})
		})
	}
}

// fillBaskets appends a basket of ann and one of bob.
func (s *shop) fillBaskets() {
	s.t.Helper()
	if err := pgx.BeginFunc(s.t.Context(), s.Pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{Catalogue: s.catalogue}.Append(s.t.Context(), tx, "shop", journal.Any,
			filled.New(basket{[]string{"Green-Tea", "cups"}, planted("ann")}),
			filled.New(basket{[]string{"cups", "Green-Tea"}, planted("bob")}))
		return err
	}); err != nil {
		s.t.Fatal(err)
	}
}

// workOn runs a worker with projections until the test ends.
func (s *shop) workOn(projections ...projection.Projection) {
	s.t.Helper()
	p, err := projector.New(projector.Config{
		Pool: s.Pool, Projections: projections, Catalogue: s.catalogue, NoListen: true, PollInterval: 100 * time.Millisecond,
		LeaseTTL: time.Second,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.run(p)
}
