package erasure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/loops"
)

// ErrPartial is wrapped by [PartialError].
var ErrPartial = errors.New("the erasure is not finished")

// PartialError is returned by [Erase] and [Abandon] if a part of the erasure is done. The same request continues
// it.
type PartialError struct {
	Certificate *Certificate // of what is done, without an end
	Left        []string     // campaigns that have events of it and that others have locked
	Err         error        // why it stopped
}

func (e *PartialError) Error() string {
	text := fmt.Sprintf("erasure %d is not finished, %d events are erased", e.Certificate.Erasure, e.Certificate.Events)
	if n := len(e.Left); n > 0 {
		const most = 10
		text += fmt.Sprintf(", %d campaigns are left, which others have locked: %q", n, e.Left[:min(n, most)])
		if n > most {
			text += " and more"
		}
	}
	if e.Certificate.Abandoned {
		return text + "; abandon it again: " + e.Err.Error()
	}
	return text + "; erase again: " + e.Err.Error()
}

// Unwrap returns [ErrPartial] and the reason.
func (e *PartialError) Unwrap() []error { return []error{ErrPartial, e.Err} }

const (
	defaultPatience = 10 * time.Second
	comeBackAfter   = 200 * time.Millisecond
)

// errBusy: an archived campaign could not be brought back yet.
var errBusy = errors.New("a campaign is in use")

// busy reports whether another session's lock stands in the way.
func busy(err error) bool {
	server, ok := errors.AsType[*pgconn.PgError](err)
	const lockNotAvailable, deadlock = "55P03", "40P01"
	return errors.Is(err, errBusy) || ok && (server.Code == lockNotAvailable || server.Code == deadlock)
}

// visit erases events of a campaign; nil: all. If the campaign is locked, it is left for later.
func (e *run) visit(ctx context.Context, campaign string, seqs []int64) error {
	err := e.begin(ctx, campaign)
	for more := true; more && err == nil; {
		part := seqs
		if len(part) > batchEvents {
			part = part[:batchEvents]
		}
		var n int
		if n, err = e.erase(ctx, campaign, part, len(part) < len(seqs)); err == nil {
			seqs = seqs[len(part):]
			more = len(seqs) > 0 || seqs == nil && n == batchEvents
		}
	}
	if busy(err) {
		e.left[campaign] = append(e.left[campaign], seqs...) // nil stays nil: all
		e.why, err = err, nil
	}
	return err
}

// comeBack erases what was left, until it is all done or for as long as no campaign could be done.
func (e *run) comeBack(ctx context.Context) error {
	for last := time.Now(); len(e.left) > 0; {
		if time.Since(last) > cmp.Or(e.Patience, defaultPatience) {
			return e.why
		}
		if !loops.Sleep(ctx, comeBackAfter) {
			return ctx.Err()
		}
		left := e.left
		e.left = map[string][]int64{}
		for i, campaign := range slices.Sorted(maps.Keys(left)) {
			err := e.visit(ctx, campaign, left[campaign])
			if err != nil {
				for _, other := range slices.Sorted(maps.Keys(left))[i:] {
					e.left[other] = left[other]
				}
				return err
			}
		}
		if len(e.left) < len(left) {
			last = time.Now()
		}
	}
	return nil
}

// partial returns err, and what is done before it.
func (e *run) partial(err error) error {
	if e.done.Erasure == 0 || errors.Is(err, ErrHeld) {
		return err
	}
	left := slices.SortedFunc(maps.Keys(e.left), strings.Compare)
	e.done.Left = left
	return &PartialError{Certificate: e.done, Left: left, Err: err}
}
