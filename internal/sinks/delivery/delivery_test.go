package delivery_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/tidemark-go/tidemark/internal/sinks/delivery"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

func TestAGateLetsCallsEndAndNoneIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var gate delivery.Gate
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := gate.Enter(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("a call whose context has ended: %v", err)
		}
		if err := gate.Enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		closed := make(chan bool, 1)
		go func() { closed <- gate.Close() }()
		synctest.Wait()
		if err := gate.Enter(t.Context()); !errors.Is(err, publisher.ErrClosed) || len(closed) > 0 {
			t.Errorf("while it closes: %v, and %d are done", err, len(closed))
		}
		gate.Leave()
		if first := <-closed; !first || gate.Close() {
			t.Error("it does not know which Close was the first")
		}
	})
}

func TestAnOutcomeNamesWhatFailedAndWhatIsBehind(t *testing.T) {
	t.Parallel()
	var events []publisher.Event
	for _, campaign := range []string{"a", "b", "a", "b", "a"} {
		events = append(events, publisher.Event{Event: event.Event{CampaignID: campaign}})
	}
	o := delivery.Of(events)
	if got := o.ByCampaign(); !reflect.DeepEqual(got, [][]int{{0, 2, 4}, {1, 3}}) {
		t.Errorf("the campaigns are %v", got)
	}
	if err := o.Err(); err != nil || o.Failed(0) || o.Behind(4) {
		t.Errorf("at the beginning: %v", err)
	}
	bad, worse := errors.New("bad"), errors.New("worse")
	o.Fail(4, worse, false) // responses can come out of order
	o.Fail(2, bad, true)
	want := &publisher.BatchError{Failures: []publisher.Failure{
		{Index: 2, Err: bad, Permanent: true}, {Index: 4, Err: worse},
	}}
	if err := o.Err(); !reflect.DeepEqual(err, want) || !o.Behind(4) || o.Failed(3) {
		t.Errorf("got %v", err)
	}
	o.Fail(0, publisher.ErrNotTried, false)
	o.Fail(1, bad, false)
	want.Failures = []publisher.Failure{
		{Index: 0, Err: publisher.ErrNotTried},
		{Index: 1, Err: bad},
		{Index: 2, Err: bad, Permanent: true},
		{Index: 3, Err: publisher.ErrNotTried},
		{Index: 4, Err: worse},
	}
	if err := o.Err(); !reflect.DeepEqual(err, want) {
		t.Errorf("got %v", err)
	}
}
