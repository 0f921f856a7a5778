package boundary

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// The full run: go test ./test/dcb ./test/dcbhttp -run Oracle -args -oracle=30s
var _ = flag.Duration("oracle", 2*time.Second, "how long the oracle's writers write")

func oracleFor() time.Duration {
	return flag.Lookup("oracle").Value.(flag.Getter).Get().(time.Duration)
}

const (
	oracleWriters = 20
	singleAppends = 120
)

// testimony is the payload of a writer's event: its query, and what it knew of the query's events.
type testimony struct {
	Append uuid.UUID    `json:"append"`
	Query  *event.Query `json:"query,omitempty"` // nil: no condition
	Known  knowledge    `json:"known"`
}

// knowledge is a digest of the events that a writer knew: equal only for equal events.
type knowledge struct {
	Events int    `json:"events"`
	Last   int64  `json:"last"`
	Sum    uint64 `json:"sum"` // of the squares of their positions, modulo 2^64
}

func (k *knowledge) add(e event.Event) {
	k.Events++
	k.Last = e.Position
	k.Sum += uint64(e.Position) * uint64(e.Position)
}

func pick(from ...string) string { return from[rand.IntN(len(from))] }

// randomQuery draws from few words, so that queries overlap.
func randomQuery() event.Query {
	var q event.Query
	for range 1 + rand.IntN(2) {
		var item event.Item
		for range rand.IntN(3) {
			item.Tags = append(item.Tags, pick("x", "y", "z"))
		}
		for range rand.IntN(3) {
			item.Types = append(item.Types, pick("opened", "closed", "noted"))
		}
		q.Items = append(q.Items, item)
	}
	return q
}

// randomEvents returns one or two events with a testimony.
func randomEvents(writer int, said testimony) []event.Event {
	payload, _ := json.Marshal(said) // text and numbers: cannot fail
	var events []event.Event
	for range 1 + rand.IntN(2) {
		e := event.Event{
			CampaignID: fmt.Sprint("c", (writer+rand.IntN(3))%oracleWriters),
			Type:       pick("opened", "closed", "noted"), Payload: payload,
		}
		for _, tag := range []string{"x", "y", "z"} {
			if rand.IntN(3) == 0 {
				e.Tags = append(e.Tags, tag)
			}
		}
		events = append(events, e)
	}
	return events
}

// writeOnce decides and appends, or appends without a condition.
func writeOnce(ctx context.Context, s Store, writer int) error {
	said := testimony{Append: uuid.New()}
	if rand.IntN(4) == 0 {
		return s.Append(ctx, randomEvents(writer, said), nil)
	}
	query := randomQuery()
	events, condition, err := s.Read(ctx, query)
	if err != nil {
		return fmt.Errorf("read %+v: %w", query, err)
	}
	said.Query = &query
	for _, e := range events {
		said.Known.add(e)
	}
	return s.Append(ctx, randomEvents(writer, said), &condition)
}

// checkTestimonies checks each append against the order of the journal: before the append's first
// event there are exactly the events that its writer knew, among those that its query selects. It
// returns the number of appends with a condition.
func checkTestimonies(t *testing.T, s Store) (asked int) {
	t.Helper()
	before, _, err := s.Read(t.Context(), event.Query{})
	if err != nil {
		t.Fatal(err)
	}
	of := make([]uuid.UUID, len(before)) // the append of each event
	for n, e := range before {
		said, err := event.Decode[testimony](e)
		if err != nil {
			t.Fatal(err)
		}
		of[n] = said.Append
		if n > 0 && e.Position <= before[n-1].Position {
			t.Fatalf("event %d comes after event %d", e.Position, before[n-1].Position)
		}
		if said.Query == nil {
			continue
		}
		asked++
		var there knowledge
		for i, b := range before[:n] { // other events may lie between those of one append
			if of[i] != said.Append && said.Query.Matches(b) {
				there.add(b)
			}
		}
		if there != said.Known {
			t.Errorf("event %d was allowed, whose writer asked %+v and knew %+v: before it stands %+v", e.Position, *said.Query,
				said.Known, there)
		}
	}
	return asked
}

// Oracle makes many writers append with overlapping conditions on the events they read, or without
// a condition. It checks that no append was allowed that should have been refused.
func Oracle(t *testing.T, s Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), oracleFor())
	defer cancel()
	var refused, excused atomic.Int64
	var g errgroup.Group
	for writer := range oracleWriters {
		g.Go(func() error {
			for ctx.Err() == nil {
				switch err := writeOnce(t.Context(), s, writer); {
				case errors.Is(err, journal.ErrConditionFailed):
					refused.Add(1)
				case errors.Is(err, ErrNothing):
					excused.Add(1)
				case err != nil:
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	asked := checkTestimonies(t, s)
	t.Logf("%d writers for %v: %d events of appends that had asked, %d appends refused, %d ended otherwise",
		oracleWriters, oracleFor(), asked, refused.Load(), excused.Load())
	if asked == 0 {
		t.Error("nobody was allowed anything")
	}
}

// SingleWriter makes one writer append on what it knows, which is sometimes incomplete. It checks
// that an append is refused exactly when a matching event is in the journal.
func SingleWriter(t *testing.T, s Store) {
	t.Helper()
	verdicts := map[bool]int{}
	for n := range singleAppends {
		all, _, err := s.Read(t.Context(), event.Query{})
		if err != nil {
			t.Fatal(err)
		}
		query := randomQuery()
		_, condition, err := s.Read(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		want := false
		if len(all) > 0 && n%2 == 0 { // it knows the journal only up to some event
			last := all[max(0, len(all)-1-rand.IntN(4))].Position
			condition = journal.Condition{FailIfMatch: query, After: last}
			for _, e := range all {
				want = want || e.Position > last && query.Matches(e)
			}
		}
		err = s.Append(t.Context(), randomEvents(0, testimony{Append: uuid.New()}), &condition)
		if errors.Is(err, ErrNothing) {
			continue
		}
		refused := errors.Is(err, journal.ErrConditionFailed)
		if refused != want || err != nil && !refused {
			t.Fatalf("of %d events, asked %+v: %v, to be refused: %v", len(all), condition, err, want)
		}
		verdicts[refused]++
	}
	if verdicts[true] == 0 || verdicts[false] == 0 {
		t.Errorf("%d were refused, %d were not: that shows nothing", verdicts[true], verdicts[false])
	}
}
