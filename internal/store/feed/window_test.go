package feed_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestReadWindowReadsWithinItsBoundsAndSaysHowFar(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const kib, all = 1 << 10, 1 << 40
	big := event.Event{Type: "big", Payload: []byte(`{"a": "` + strings.Repeat("x", 200*kib) + `"}`)}
	mustAppend(t, pool, "a", noted(3)...)   // 1 to 3
	mustAppend(t, pool, "b", big, big, big) // 4 to 6
	mustAppend(t, pool, "c", noted(2)...)   // 7 and 8
	for name, test := range map[string]struct {
		window event.Window
		want   string
		until  int64
	}{
		"everything":            {event.Window{Floor: 8, Events: 100, Bytes: all}, "a1 a2 a3 b1 b2 b3 c1 c2", 8},
		"between two positions": {event.Window{After: 1, Floor: 4, Events: 100, Bytes: all}, "a2 a3 b1", 4},
		"beyond the end":        {event.Window{After: 6, Floor: 20, Events: 100, Bytes: all}, "c1 c2", 20},
		"nothing":               {event.Window{After: 8, Floor: 20, Events: 100, Bytes: all}, "", 20},
		"up to a number":        {event.Window{Floor: 8, Events: 2, Bytes: all}, "a1 a2", 2},
		"up to a size":          {event.Window{Floor: 8, Events: 100, Bytes: 300 * kib}, "a1 a2 a3 b1 b2", 5},
		"one, however large":    {event.Window{After: 3, Floor: 8, Events: 100, Bytes: 1}, "b1", 4},
	} {
		for _, test.window.Small = range []bool{false, true} {
			events, until, err := feed.ReadWindow(t.Context(), pool, test.window)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range events {
				got = append(got, fmt.Sprint(e.CampaignID, e.Seq))
			}
			if !slices.Equal(got, strings.Fields(test.want)) {
				t.Errorf("%s, small %v: got %v, want %s", name, test.window.Small, got, test.want)
			}
			// If jsonb is smaller than its text, a watched window cannot tell whether the byte
			// limit ended it.
			if until != test.until && (test.window.Small || len(events) == 0 || until != events[len(events)-1].Position) {
				t.Errorf("%s, small %v: complete up to %d, want %d", name, test.window.Small, until, test.until)
			}
		}
	}
}

func TestReadWindowReadsWhatGetReads(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	mustAppend(t, pool, "c", event.Event{Type: "bare"}, event.Event{
		Type: "full", Version: 3, Intent: event.AuditOnly, AggregateType: "seat", AggregateID: "7", Actor: "ann",
		Tags:    []string{"a", "b"},
		Payload: []byte(`{"n": 1}`), Metadata: []byte(`{"m": 2}`),
		OccurredAt: time.Date(1999, 12, 31, 23, 59, 59, 123456000, time.UTC),
	})
	bare, err := feed.Get(t.Context(), pool, "c", 1)
	if err != nil || bare.Version != 1 || bare.Intent != event.ProjectionAndReplay ||
		!bare.OccurredAt.Equal(bare.RecordedAt) || bare.OccurredAt.IsZero() {
		t.Errorf("what is not sent because most events have it is lost: %+v, %v", bare, err)
	}
	for _, small := range []bool{false, true} {
		events, _, err := feed.ReadWindow(t.Context(), pool,
			event.Window{Floor: 2, Events: 9, Bytes: 1 << 20, Small: small})
		if err != nil || len(events) != 2 {
			t.Fatalf("small %v: read %d events, %v", small, len(events), err)
		}
		if full := events[1]; full.Version != 3 || full.Intent != event.AuditOnly || full.OccurredAt.Year() != 1999 {
			t.Errorf("small %v: %+v", small, full)
		}
		for _, e := range events {
			want, err := feed.Get(t.Context(), pool, "c", e.Seq)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := marshal(t, e), marshal(t, want); got != want {
				t.Errorf("small %v: got %s, want %s", small, got, want)
			}
		}
	}
}
