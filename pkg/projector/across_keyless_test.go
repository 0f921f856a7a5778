package projector_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// lost is a document across campaigns that cannot find the key of some points for a while.
type lost struct {
	points atomic.Int64 // whose key is not found
	scores
}

func (l *lost) projection() projection.Projection {
	return projection.Document[standing]{
		Name: "board", Version: 1, Types: []string{"scored"}, Scope: projection.ScopeJournal, Partitions: 3,
		Key: func(e event.Event) (string, error) {
			p, err := event.Decode[scored](e)
			if points := l.points.Load(); err == nil && points != 0 && int64(p.Points) == points {
				err = errors.New("no such player")
			}
			return p.Player, err
		},
		Fold: func(doc *standing, e event.Event) error {
			p, err := event.Decode[scored](e)
			doc.add(e, p.Points)
			if l.refuses.Load() != 0 && p.Points == int(l.refuses.Load()) {
				return errRefused
			}
			return err
		},
	}
}

// expectBoard expects that the document is the fold of the journal, without its file of handlers.
func expectBoard(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	want := foldedScores(t, pool, nil)
	for player, s := range want {
		expectText(t, pool, "the board of "+player, fmt.Sprint(s.Games, " ", s.Total, " ", s.Order), `SELECT concat_ws(' ',
			doc ->> 'games', doc ->> 'total', doc ->> 'order') FROM tidemark_views.board WHERE key = $1`, player)
	}
}

// TestNoPartitionPassesAnEventWhoseKeyIsNotFound has an event of each of ten players whose key is
// found late. Partitions that passed it could not apply it any more.
func TestNoPartitionPassesAnEventWhoseKeyIsNotFound(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	l := &lost{}
	p := workerOf(t, pool, nil, l.projection())
	l.points.Store(7)
	for i := range 10 {
		score(t, pool, fmt.Sprint("game", i), scored{fmt.Sprint("p", i), 1}, scored{fmt.Sprint("p", i), 7},
			scored{fmt.Sprint("p", i), 2})
	}
	drain(t, p)
	if n := query[int](t, pool, `SELECT count(*) FROM tidemark.readers WHERE position = (SELECT min(position)
		FROM tidemark.journal)`); n != 3 {
		t.Errorf("%d of 3 partitions wait before the event", n)
	}
	retry(t, pool, p)
	l.points.Store(0)
	retry(t, pool, p)
	drain(t, p)
	expectPairs(t, pool, "")
	expectBoard(t, pool)
}

// TestAnEventWhoseKeyIsFoundLateWaitsForItsKey has a key that has failed before an event whose key
// is not found at first.
func TestAnEventWhoseKeyIsFoundLateWaitsForItsKey(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	l := &lost{}
	p := workerOf(t, pool, nil, l.projection())
	l.points.Store(7)
	l.refuses.Store(3)
	for i := range 10 {
		score(t, pool, fmt.Sprint("game", i), scored{fmt.Sprint("p", i), 1}, scored{fmt.Sprint("p", i), 3})
	}
	for _, player := range []string{"p2", "p0"} { // p2 is in the partition that holds the event back
		score(t, pool, "late", scored{player, 7}, scored{player, 2})
	}
	drain(t, p)
	l.points.Store(0)
	exec(t, pool, `UPDATE tidemark.failed SET next_attempt_at = now() WHERE campaign_id = '-'`)
	drain(t, p)
	l.refuses.Store(0)
	retry(t, pool, p)
	drain(t, p)
	expectPairs(t, pool, "")
	expectBoard(t, pool)
}

// TestAGroupFromSeveralPagesStopsBeforeAnEventWhoseKeyIsNotFound has the event on the last of
// six pages. Each partition wants a third of a page, so its group goes on with the next.
func TestAGroupFromSeveralPagesStopsBeforeAnEventWhoseKeyIsNotFound(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	l := &lost{}
	p := workerOf(t, pool, func(c *projector.Config) { c.GroupEvents = 1000 }, l.projection())
	l.points.Store(7)
	for game := range 12 {
		events := make([]scored, 1000)
		for i := range events {
			events[i] = scored{fmt.Sprint("p", i%10), 1}
			if game == 11 && i == 900 {
				events[i].Points = 7
			}
		}
		score(t, pool, fmt.Sprint("game", game), events...)
	}
	drain(t, p)
	if n := query[int](t, pool, `SELECT count(*) FROM tidemark.readers WHERE position = (SELECT min(position) + 11899
		FROM tidemark.journal)`); n != 3 {
		t.Errorf("%d of 3 partitions wait before the event", n)
	}
	prove := func() {
		t.Helper()
		if found := differing(t, pool); found != nil {
			t.Errorf("differing %q", found)
		}
	}
	prove()
	l.points.Store(0)
	retry(t, pool, p)
	drain(t, p)
	expectPairs(t, pool, "")
	expectBoard(t, pool)
	prove()
}
