package feed_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestReadCampaignsReadsWhatIsProjected reads all campaigns in a range with pages of many sizes.
// Each time it must get the same events once, in order.
func TestReadCampaignsReadsWhatIsProjected(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	var all, some []string // the expected events
	for c := range 7 {
		id := fmt.Sprint("c", c)
		var events []event.Event
		for seq := 1; seq <= 3*c; seq++ {
			e := event.Event{
				Type:    fmt.Sprint("type", seq%3),
				Payload: []byte(fmt.Sprintf(`{"text": %q}`, strings.Repeat("x", seq*10))),
			}
			if seq%5 == 0 {
				e.Intent = event.AuditOnly
			}
			if events = append(events, e); e.Intent == event.AuditOnly || c < 2 || c > 5 {
				continue
			}
			if all = append(all, fmt.Sprint(id, " ", seq)); seq%3 == 1 {
				some = append(some, fmt.Sprint(id, " ", seq))
			}
		}
		if len(events) == 0 {
			continue
		}
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{}.AppendAll(t.Context(), tx, journal.Batch{CampaignID: id, Events: events})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, types := range []struct {
		of   []string
		want []string
	}{{nil, all}, {[]string{"type1", "never"}, some}, {[]string{}, nil}} {
		for _, limit := range []struct {
			events int
			bytes  int64
		}{{1, math.MaxInt64}, {4, math.MaxInt64}, {1000, math.MaxInt64}, {1000, 1}, {1000, 150}} {
			var got []string
			read := feed.CampaignsRead{
				CampaignID: "c1", Seq: math.MaxInt64, Last: "c5", Types: types.of,
				Events: limit.events, Bytes: limit.bytes,
			}
			for more := true; more; {
				var err error
				more, err = feed.ReadCampaigns(t.Context(), pool, &read, func(e *event.Event, _ int) {
					got = append(got, fmt.Sprint(e.CampaignID, " ", e.Seq))
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(got, types.want) {
				t.Errorf("of types %v, %d events and %d bytes a page: %v, want %v", types.of, limit.events, limit.bytes, got,
					types.want)
			}
		}
	}
}
