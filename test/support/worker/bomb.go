package worker

import (
	"context"
	"os"
	"runtime/debug"
	"syscall"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// Bomb is an event whose application ends the process.
type Bomb struct {
	Kind     Kind // "": none
	Campaign string
	Seq      int64
}

// Kind is how a process ends.
type Kind string

// The kinds.
const (
	Exit   Kind = "exit"   // os.Exit
	Kill   Kind = "kill"   // SIGKILL, as the kernel sends it when memory runs out
	Memory Kind = "memory" // the process allocates until it gets no more
	Stack  Kind = "stack"  // a recursion without end, which Go cannot recover from
)

// bombExit is the exit code of a bomb of kind Exit.
const bombExit = 17

// before is a hook that goes off at the bomb's event, and does what next does at all others.
func (b Bomb) before(next tally.Hook) tally.Hook {
	return func(ctx context.Context, g *projector.Group, e journal.Event) error {
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
			// The machine is not to suffer: from here on the process gets no more memory than it has.
			if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20}); err != nil {
				return err
			}
			for hoard := [][]byte{}; len(hoard) >= 0; {
				hoard = append(hoard, make([]byte, 1<<20))
			}
		case Stack:
			debug.SetMaxStack(1 << 20) // a gigabyte takes longer, and does the same
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
