package leaktest

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { Main(m) }

// Not parallel: it checks all goroutines of the process.
func TestAGoroutineThatStaysIsFoundAndOneThatEndsIsNot(t *testing.T) { //nolint:paralleltest // see above
	others, proceed, ended := goleak.IgnoreCurrent(), make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); <-proceed }()
	if err := find(time.Millisecond, others); err == nil || !strings.Contains(err.Error(), "leaktest") {
		t.Errorf("of a goroutine that stays it says: %v", err)
	}
	close(proceed)
	if err := find(patience, others); err != nil {
		t.Errorf("of one that has ended it says: %v", err)
	}
	<-ended
}
