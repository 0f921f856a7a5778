package status

import (
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/outbox"
)

func TestCompareTellsWhenALagIsGone(t *testing.T) {
	t.Parallel()
	at := time.Now()
	reading := func(after time.Duration, falls, grows int64) *Status {
		return &Status{At: at.Add(after), Lag: []Lag{
			{Behind: outbox.Behind{Group: "g", Events: falls}},
			{Behind: outbox.Behind{Group: "g", Projection: "p", Events: grows}},
		}}
	}
	before, s := reading(0, 1000, 10), reading(10*time.Second, 400, 30)
	s.Lag = append(s.Lag, Lag{Behind: outbox.Behind{Group: "new", Events: 5}})
	s.Compare(nil)
	s.Compare(reading(9500*time.Millisecond, 1, 1)) // too short an interval to compare
	if s.Lag[0].Drain != nil {
		t.Errorf("got %+v from nothing to compare with", s.Lag[0].Drain)
	}
	s.Compare(before)
	if d := s.Lag[0].Drain; d == nil || d.PerSecond != 60 || d.Empty == nil ||
		d.Empty.Round(time.Millisecond) != 6667*time.Millisecond {
		t.Errorf("600 of 1,000 events in ten seconds: got %+v", d)
	}
	if d := s.Lag[1].Drain; d == nil || d.PerSecond != -2 || d.Empty != nil {
		t.Errorf("a lag that grows: got %+v", d)
	}
	if s.Lag[2].Drain != nil {
		t.Errorf("a group that was not there: got %+v", s.Lag[2].Drain)
	}
}
