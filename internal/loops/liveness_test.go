package loops_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/loops"
)

func TestStuck(t *testing.T) {
	t.Parallel()
	var p loops.Pulse
	late, resting, fine, silent := p.Loop("late"), p.Loop("resting"), p.Loop("fine"), p.Loop("silent")
	late.Within(time.Minute)
	resting.Within(time.Minute)
	resting.Rest()
	fine.Within(time.Hour)
	_ = silent
	for after, want := range map[time.Duration][]string{
		0: nil, 2 * time.Minute: {"late"},
		2 * time.Hour: {"fine", "late"},
	} {
		if got := p.Stuck(time.Now().Add(after)); !slices.Equal(got, want) {
			t.Errorf("after %v these are stuck: %v, want %v", after, got, want)
		}
	}
	late.Within(4 * time.Hour)
	if got := p.Stuck(time.Now().Add(2 * time.Hour)); !slices.Equal(got, []string{"fine"}) {
		t.Errorf("one that came back is still stuck: %v", got)
	}
}

func TestALoopThatIsNotThereIsNotStuck(t *testing.T) {
	t.Parallel()
	l := loops.Of(t.Context())
	l.Within(time.Nanosecond)
	l.Rest()
	if loops.Of(loops.With(t.Context(), (&loops.Pulse{}).Loop("it"))) == nil {
		t.Error("the context does not carry it")
	}
}
