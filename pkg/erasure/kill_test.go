package erasure_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestErasuresUnderKillsLeaveNothing erases a tenth of all customers, while orders come in. Worker and
// operator are killed again and again, until an operator gets to the end.
func TestErasuresUnderKillsLeaveNothing(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	url := s.Config().ConnString()
	start(t, "work", url)
	const customers, erased, mostOrders = 500, 50, 2000
	name := func(i int) string {
		if i < erased {
			return fmt.Sprint("gone", i)
		}
		return fmt.Sprint("kept", i)
	}
	for i := range customers {
		s.order(fmt.Sprint("shop", i%60), name(i), 10)
		s.order(fmt.Sprint("shop", i%7), name(i), 11)
	}
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	orders := 0
	load.Go(func() {
		// Without a limit, the journal of a slow machine grows faster than erasures go through it.
		for ; orders < mostOrders && ctx.Err() == nil; orders++ {
			s.order(fmt.Sprint("shop", orders%60), name(erased+orders%(customers-erased)), 10)
		}
	})
	words := []string{"erase", pgtest.With(url, "application_name", "operator")}
	for i := range erased {
		words = append(words, planted(name(i)))
	}
	kills := 0
	for done := false; !done; {
		worker, operator := start(t, "work", url), start(t, words...)
		ended := make(chan error, 1)
		go func() { ended <- operator.Wait() }()
		select {
		case err := <-ended:
			if done = err == nil; !done {
				t.Fatal(err)
			}
		case <-time.After(time.Duration(20+rand.IntN(100+100*kills)) * time.Millisecond):
			if err := operator.Process.Kill(); err != nil {
				t.Error(err)
			}
			done = <-ended == nil // it was quicker
			kills++
			s.within("the server has noticed the kill", func() bool { // until then a statement may hold the erasure
				return s.value(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
					AND application_name = 'operator'`) == "0"
			})
			s.expire()
		}
		_ = worker.Process.Kill()
		_ = worker.Wait()
	}
	stop()
	load.Wait()
	s.within("read models are made anew", func() bool {
		return s.value(`SELECT count(*) FROM tidemark.rebuilds`) == "0" && s.value(`SELECT count(*) FROM tidemark.outbox`) == "0" &&
			s.value(`SELECT count(*) FROM tidemark.failed`) == "0" &&
			s.value(`SELECT count(*) FROM tidemark.projections WHERE name LIKE '%~%'`) == "0"
	})
	s.within("all places are at the end", func() bool {
		return s.value(`SELECT bool_and(position >= (SELECT max(position) FROM tidemark.journal)) FROM tidemark.readers`) == "true"
	})
	if found := s.everywhere("planted-gone"); found != nil {
		t.Errorf("after %d kills erased values are in %v", kills, found)
	}
	want := fmt.Sprint((customers-erased)*21 + 10*orders)
	for _, table := range []string{"shops", "customers"} {
		if got := s.value(`SELECT sum((doc ->> 'amount')::int) FROM tidemark_views.` + table); got != want {
			t.Errorf("%s have %s, want %s", table, got, want)
		}
	}
	rows := fmt.Sprint(2*customers + orders)
	if got := s.value(`SELECT count(*) FROM tidemark_views.orders`) + " " + s.value(`SELECT count(*) FROM tidemark_views.log`); got != rows+" "+rows {
		t.Errorf("orders and log have %s rows, want %s each", got, rows)
	}
	t.Logf("%d kills, %d orders meanwhile", kills, orders)
}
