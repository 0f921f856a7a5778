package publishertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

type rule struct {
	name  string
	check func(*kit)
}

func rules() []rule {
	return []rule{
		{"what is published arrives in the order of each campaign", arrives},
		{"several goroutines publish at once", arrivesFromSeveral},
		{"a batch that is sent again keeps its ids", keepsIDs},
		{"one id in several campaigns is as many events", tellsCampaignsApart},
		{"what is lent is not kept", keepsNothing},
		{"a refused event is named, and holds back its campaign alone", refuses},
		{"a context that has ended ends Publish", obeysContext},
		{"a deadline ends a Publish that is not answered", obeysDeadline},
		{"nothing is refused for good while the other side is down", outlivesOutage},
		{"it closes, and is closed then", closes},
	}
}

func (k *kit) close() {
	k.Helper()
	if closer, ok := k.Sink.(io.Closer); ok {
		if err := closer.Close(); err != nil {
			k.Errorf("close: %v", err)
		}
	}
}

func arrives(k *kit) {
	defer k.close()
	var all []publisher.Event
	for i, size := range []int{1, 7, 50} {
		batch := k.events(size, 1+i*100, "a", "b", fmt.Sprintf("only %d/ä", i))
		k.publish(batch)
		all = append(all, batch...)
	}
	k.inOrder(k.await(all))
	if h, ok := k.Sink.(publisher.HealthChecker); ok {
		if err := h.Healthy(k.Context()); err != nil {
			k.Errorf("it publishes, and says that it is not healthy: %v", err)
		}
	}
}

func arrivesFromSeveral(k *kit) {
	defer k.close()
	var g errgroup.Group
	var all []publisher.Event
	for i := range 4 {
		batches := [][]publisher.Event{}
		for n := range 10 {
			batches = append(batches, k.events(5, 1+n*5, fmt.Sprint("a", i), fmt.Sprint("b", i)))
			all = append(all, batches[n]...)
		}
		g.Go(func() error {
			for _, batch := range batches {
				if err := k.Sink.Publish(k.Context(), batch); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		k.Fatal(err)
	}
	k.inOrder(k.await(all))
}

func keepsIDs(k *kit) {
	defer k.close()
	batch := k.events(10, 1, "a", "b")
	k.publish(batch)
	k.publish(batch)
	after := k.events(1, 11, "a", "b")
	k.publish(after)
	received := k.await(slices.Concat(batch, after))
	k.inOrder(received)
	k.atMostTwice(received)
}

// tellsCampaignsApart sends one id in several campaigns. Their names collide in an encoding that
// joins them to the id without escaping.
func tellsCampaignsApart(k *kit) {
	defer k.close()
	campaigns := []string{"a", "a/b", "a.b%2Fc: d", "zażółć\\"}
	batch := k.events(2, 1, campaigns...)
	for i := range batch {
		batch[i].ID = batch[i-i%len(campaigns)].ID
		k.remember(batch[i])
	}
	// The last campaign goes first, so the others arrive behind it by position, as with several lanes.
	isLast := func(e publisher.Event) bool { return e.CampaignID == campaigns[len(campaigns)-1] }
	last := slices.DeleteFunc(slices.Clone(batch), func(e publisher.Event) bool { return !isLast(e) })
	others := slices.DeleteFunc(slices.Clone(batch), isLast)
	for range 2 {
		k.publish(last)
		k.publish(others)
	}
	received := k.await(batch)
	k.inOrder(received)
	k.atMostTwice(received)
}

// atMostTwice checks that no event arrived more than twice.
func (k *kit) atMostTwice(received []Received) {
	k.Helper()
	times := map[string]int{}
	for _, r := range received {
		if times[r.identity()]++; times[r.identity()] > 2 {
			k.Errorf("event %s of campaign %q was sent twice and has arrived more often", r.EventID, r.CampaignID)
		}
	}
}

func keepsNothing(k *kit) {
	defer k.close()
	batch := k.events(5, 1, "a", "b")
	lent := slices.Clone(batch)
	for i := range lent {
		lent[i].Payload, lent[i].Metadata = slices.Clone(lent[i].Payload), slices.Clone(lent[i].Metadata)
	}
	before := fmt.Sprint(lent)
	k.publish(lent)
	if fmt.Sprint(lent) != before {
		k.Error("the sink has changed what it was lent")
	}
	for i := range lent { // the relay reuses the slice for the next batch
		for j := range lent[i].Payload {
			lent[i].Payload[j] = '!'
		}
		lent[i] = publisher.Event{}
	}
	k.inOrder(k.await(batch))
}

func refuses(k *kit) {
	defer k.close()
	if k.Poison == nil {
		k.Log("not checked: the target has no Poison")
		return
	}
	first := k.events(1, 1, "a", "b", "c")
	bad := k.events(1, 2, "b")
	k.Poison(&bad[0])
	k.remember(bad[0])
	later := k.events(3, 3, "a", "b", "c")
	err := k.Sink.Publish(k.Context(), slices.Concat(first, bad, later))
	var batchErr *publisher.BatchError
	if !errors.As(err, &batchErr) {
		k.Fatalf("a refused event in the middle of a batch: got %v, want a *BatchError", err)
	}
	want := []int{3, 5, 8, 11} // the bad one, and the later ones of its campaign
	var got []int
	for _, f := range batchErr.Failures {
		got = append(got, f.Index)
		if bad := f.Index == 3; f.Permanent != bad || errors.Is(f.Err, publisher.ErrNotTried) == bad || f.Err == nil {
			k.Errorf("event %d: permanent is %t, the error %v", f.Index, f.Permanent, f.Err)
		}
	}
	if !slices.Equal(got, want) {
		k.Errorf("the failures are events %d of the batch, want %d", got, want)
	}
	// The relay skips it, and goes on.
	rest := slices.DeleteFunc(slices.Clone(later), func(e publisher.Event) bool { return e.CampaignID != "b" })
	k.publish(rest)
	received := k.await(slices.Concat(first, later))
	k.inOrder(received)
	for _, r := range received {
		if r.EventID == bad[0].ID {
			k.Error("the refused event has arrived")
		}
	}
	// Alone in a batch it is refused too.
	if err := k.Sink.Publish(k.Context(), bad); !errors.As(err, &batchErr) || len(batchErr.Failures) != 1 ||
		!batchErr.Failures[0].Permanent {
		k.Errorf("a refused event alone: got %v", err)
	}
}

func (k *kit) within(ctx context.Context, events []publisher.Event, when string) error {
	k.Helper()
	done := make(chan error, 1)
	go func() { done <- k.Sink.Publish(ctx, events) }()
	<-ctx.Done()
	select {
	case err := <-done:
		return err
	case <-time.After(k.promptly):
		k.Fatalf("%s: Publish has not returned %s after its context ended", when, k.promptly)
		return nil
	}
}

// blamesNoEvent checks that an error blames no event.
func (k *kit) blamesNoEvent(err error, when string) {
	k.Helper()
	if err == nil {
		k.Errorf("%s: no error", when)
	}
	var batchErr *publisher.BatchError
	if errors.As(err, &batchErr) && slices.ContainsFunc(batchErr.Failures, func(f publisher.Failure) bool {
		return f.Permanent
	}) {
		k.Errorf("%s: an event is refused for good: %v", when, err)
	}
}

func obeysContext(k *kit) {
	defer k.close()
	k.publish(k.events(1, 1, "a"))
	ctx, cancel := context.WithCancel(k.Context())
	cancel()
	batch := k.events(3, 2, "a")
	if err := k.within(ctx, batch, "cancelled before"); err != nil { // what was sent at once may also have arrived
		k.blamesNoEvent(err, "cancelled before")
	}
	k.publish(batch)
	k.inOrder(k.await(batch))
}

func obeysDeadline(k *kit) {
	defer k.close()
	if k.Stall == nil {
		k.Log("not checked: the target has no Stall")
		return
	}
	k.publish(k.events(1, 1, "a"))
	resume := k.Stall()
	ctx, cancel := context.WithTimeout(k.Context(), 500*time.Millisecond)
	defer cancel()
	batch := k.events(3, 2, "a")
	k.blamesNoEvent(k.within(ctx, batch, "not answered"), "not answered")
	resume()
	k.publishEventually(batch)
	k.inOrder(k.await(batch))
}

func outlivesOutage(k *kit) {
	defer k.close()
	if k.Stop == nil {
		k.Log("not checked: the target has no Stop")
		return
	}
	k.publish(k.events(1, 1, "a"))
	start := k.Stop()
	batch := k.events(3, 2, "a", "b")
	ctx, cancel := context.WithTimeout(k.Context(), time.Second)
	defer cancel()
	k.blamesNoEvent(k.Sink.Publish(ctx, batch), "the other side is down")
	if h, ok := k.Sink.(publisher.HealthChecker); ok {
		ctx, cancel := context.WithTimeout(k.Context(), time.Second)
		defer cancel()
		if h.Healthy(ctx) == nil {
			k.Error("the other side is down, and the sink says that it is healthy")
		}
	}
	start()
	k.publishEventually(batch)
	k.inOrder(k.await(batch))
}

// publishEventually publishes until it succeeds, as the relay does after failures.
func (k *kit) publishEventually(events []publisher.Event) {
	k.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(k.patience); ; <-tick.C {
		ctx, cancel := context.WithTimeout(k.Context(), 5*time.Second)
		err := k.Sink.Publish(ctx, events)
		cancel()
		switch {
		case err == nil:
			return
		case time.Now().After(deadline):
			k.Fatalf("the other side is back, and publishing still fails: %v", err)
		}
	}
}

func closes(k *kit) {
	batch := k.events(2, 1, "a")
	k.publish(batch)
	k.await(batch)
	closer, ok := k.Sink.(io.Closer)
	if !ok {
		return
	}
	for range 2 {
		if err := closer.Close(); err != nil {
			k.Errorf("close: %v", err)
		}
	}
	if err := k.Sink.Publish(k.Context(), k.events(1, 3, "a")); err == nil {
		k.Error("Publish succeeds after Close")
	}
}
