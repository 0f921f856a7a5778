package worker

import (
	"context"
	"os"
	"runtime/debug"
	"syscall"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// Bomb is an event that ends the process when it is applied.
type Bomb struct {
	Kind     Kind // "": none
	Campaign string
	Seq      int64
}

// Kind is the way in which a process ends.
type Kind string

// The kinds.
const (
	Exit   Kind = "exit"   // os.Exit
	Kill   Kind = "kill"   // SIGKILL, as sent by the kernel when memory runs out
	Memory Kind = "memory" // allocates until no memory is left
	Stack  Kind = "stack"  // endless recursion, from which Go cannot recover
)

// bombExit is the exit code of a bomb of kind Exit.
const bombExit = 17

// before returns a hook that ends the process at the bomb's event and calls next for all others.
func (b Bomb) before(next tally.Hook) tally.Hook {
	return func(ctx context.Context, g *projection.Group, e event.Event) error {
		if b.Kind == "" || e.CampaignID != b.Campaign || e.Seq != b.Seq {
			return next(ctx, g, e)
		}
		switch b.Kind {
		case Exit:
			os.Exit(bombExit)
		case Kill:
			if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
				return err
			}
			select {}
		case Memory:
			// Protect the machine: from here on the process gets no more memory.
			if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20}); err != nil {
				return err
			}
			for hoard := [][]byte{}; len(hoard) >= 0; {
				hoard = append(hoard, make([]byte, 1<<20))
			}
		case Stack:
			debug.SetMaxStack(1 << 20) // a gigabyte takes longer with the same result
			os.Exit(descend(0))
		}
		return nil
	}
}

// descend never returns.
func descend(depth int) int {
	if depth < 0 {
		return 0
	}
	return descend(depth+1) + depth
}
