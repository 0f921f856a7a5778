package rebuild

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/tidemark-go/tidemark/internal/loops"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
)

const (
	// near is how many events tables across campaigns may be behind those that they are to replace. More
	// than that would take long.
	near = 1000

	// passTime is how long the live tables stand still to be passed, passLook the time between two looks.
	passTime = 2 * time.Second
	passLook = 20 * time.Millisecond
)

// letPass makes the live tables across campaigns stand still until those of another set have passed
// them: under load one is ahead and then the other. Readers must not see older rows after a swap. If
// firmly is set, the live tables also stand still if they have just been passed.
func letPass(ctx context.Context, db registry.Beginner, name string, s registry.TableSet, firmly bool) error {
	for still, start := false, time.Now(); ; {
		behind, err := ledger.Behind(ctx, db, s.Of(name), name, near+1)
		switch {
		case err != nil || behind == 0 && (still || !firmly):
			return err
		case behind > near:
			return ErrNotYet
		case time.Since(start) > passTime:
			return fmt.Errorf("%w: those of %s have not passed the live ones, which stood still for %s", ErrBehind,
				s.Of(name), passTime)
		case !still:
			if still, err = ledger.StandStill(ctx, db, s.Of(name), name, passTime); err != nil || still {
				break
			}
			if behind > 0 {
				err = ErrNotYet // no worker applies them
			}
			return err
		}
		if err != nil || !loops.Sleep(ctx, passLook) {
			return cmp.Or(err, ctx.Err())
		}
	}
}
