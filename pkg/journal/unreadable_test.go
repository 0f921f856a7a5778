package journal_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/unreadable"
)

// Readers get past every unreadable row: their error names it and where to go on.
func TestReadersGetPastWhatAppendWouldHaveRefused(t *testing.T) {
	t.Parallel()
	for kind := range unreadable.Kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			mustAppend(t, pool, "bad", noted(2)...)
			unreadable.Write(t, pool, "bad", "noted", kind)
			mustAppend(t, pool, "bad", noted(1)...)
			mustAppend(t, pool, "good", noted(1)...)
			unprinted := kind == unreadable.Unprintable || kind == unreadable.Damaged

			check := func(reader string, got int, stops []*event.UnreadableError, want int) {
				t.Helper()
				switch {
				case got != want:
					t.Errorf("%s: %d events, want %d", reader, got, want)
				case !unprinted && len(stops) > 0:
					t.Errorf("%s: %v", reader, stops)
				case unprinted && (len(stops) != 1 || stops[0].Campaign != "bad" || stops[0].Seq != 3 || stops[0].Position != 3):
					t.Errorf("%s: it stopped at %v", reader, stops)
				}
			}
			// stream reads on after each unreadable event.
			stream := func(reader string, want int, from func(after int64) func(func(event.Event, error) bool),
				at func(event.Event) int64,
			) {
				t.Helper()
				var stops []*event.UnreadableError
				n, after := 0, int64(0)
				for again := true; again; {
					again = false
					for e, err := range from(after) {
						var stop *event.UnreadableError
						if errors.As(err, &stop) {
							stops, again = append(stops, stop), true
						} else if err != nil {
							t.Fatalf("%s: %v", reader, err)
						}
						n, after = n+1, at(e)
					}
				}
				check(reader, n, stops, want)
			}
			if kind == unreadable.Unprintable { // each read of it takes seconds
				e, err := journal.Get(t.Context(), pool, "bad", 3)
				if e.Seq != 3 || !errors.Is(err, event.ErrUnreadable) {
					t.Errorf("Get: event %d, %v", e.Seq, err)
				}
				return
			}
			stream("ReadAll", 5, func(after int64) func(func(event.Event, error) bool) {
				return journal.ReadAll(t.Context(), pool, after)
			},
				func(e event.Event) int64 { return e.Position })
			stream("ReadCampaign", 4, func(after int64) func(func(event.Event, error) bool) {
				return journal.ReadCampaign(t.Context(), pool, "bad", after)
			}, func(e event.Event) int64 { return e.Seq })

			marked := func(reader string, want int, events []event.Event, err error) {
				t.Helper()
				if err != nil {
					t.Errorf("%s: %v", reader, err)
					return
				}
				var stops []*event.UnreadableError
				for _, e := range events {
					var stop *event.UnreadableError
					if errors.As(e.Unreadable(), &stop) {
						stops = append(stops, stop)
						if _, err := event.Decode[map[string]any](e); !errors.Is(err, event.ErrUnreadable) {
							t.Errorf("%s: what cannot be read was decoded: %v", reader, err)
						}
					}
				}
				check(reader, len(events), stops, want)
			}
			events, err := feed.ReadRange(t.Context(), pool, "bad", 1, 5, 10)
			marked("ReadRange", 4, events, err)
			for _, small := range []bool{false, true} {
				events, _, err = feed.ReadWindow(t.Context(), pool,
					event.Window{Floor: 5, Events: 10, Bytes: 1 << 30, Small: small})
				marked("ReadWindow", 5, events, err)
			}
			events, err = journal.Read(t.Context(), pool, event.Query{}, 0, 10)
			marked("Read", 5, events, err)
			if e, err := journal.Get(t.Context(), pool, "bad", 3); e.Seq != 3 ||
				errors.Is(err, event.ErrUnreadable) != unprinted || !unprinted && err != nil {
				t.Errorf("Get: event %d, %v", e.Seq, err)
			}
			events = nil
			var batch pgx.Batch
			feed.ReadGroup(&batch, feed.GroupRead{
				CampaignIDs: []string{"bad", "good"}, After: []int64{0, 0}, Until: []int64{9, 9}, Events: 10, Bytes: 1 << 30,
				Careful: true,
			}, func(_ int, e *event.Event, _ int) { events = append(events, *e) })
			marked("ReadGroup", 5, events, pool.SendBatch(t.Context(), &batch).Close())
			events = nil
			_, err = feed.ReadCampaigns(t.Context(), pool,
				&feed.CampaignsRead{Last: "good", Events: 10, Bytes: 1 << 30, Careful: true},
				func(e *event.Event, _ int) { events = append(events, *e) })
			marked("ReadCampaigns", 5, events, err)
		})
	}
}
