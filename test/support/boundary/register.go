package boundary

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

const (
	registerClients    = 6
	registerOperations = 15 // of each client
	registerAttempts   = 10 * registerOperations

	patience = time.Minute // limits porcupine
)

// operation is a call on the register: read, or compare and set.
type operation struct {
	set      bool
	from, to int
}

// answer is the result of a call. A refused set changed nothing; a set with an unknown outcome may
// have.
type answer struct {
	value   int
	done    bool
	unknown bool
}

func registerModel() porcupine.Model {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{0} },
		Step: func(state, input, output any) []any {
			value, op, out := state.(int), input.(operation), output.(answer)
			switch {
			case !op.set && out.value == value:
				return []any{value}
			case !op.set:
				return nil
			case out.unknown && value == op.from:
				return []any{value, op.to}
			case out.unknown, !out.done:
				return []any{value}
			case value == op.from:
				return []any{op.to}
			}
			return nil
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
	}
	return model.ToModel()
}

// register is a value in the journal: the last event of a tag has it. It may be in any campaign.
type register struct {
	store Store
}

func (r register) read(ctx context.Context) (value int, condition journal.Condition, err error) {
	events, condition, err := r.store.Read(ctx, event.Tagged([]string{"register=a"}, "set"))
	if err != nil || len(events) == 0 {
		return 0, condition, err
	}
	stored, err := event.Decode[struct{ Value int }](events[len(events)-1])
	return stored.Value, condition, err
}

// set decides on the value that it reads, and appends. If the read fails, there was no operation.
func (r register) set(ctx context.Context, to int) (op operation, out answer, err error) {
	from, condition, err := r.read(ctx)
	if err != nil {
		return op, out, err
	}
	payload, _ := json.Marshal(map[string]int{"Value": to}) // a map of numbers: cannot fail
	e := event.Event{
		CampaignID: fmt.Sprint("c", to%3), Type: "set", Tags: []string{"register=a", "all"},
		Payload: payload,
	}
	err = r.store.Append(ctx, []event.Event{e}, &condition)
	refused := errors.Is(err, journal.ErrConditionFailed) || errors.Is(err, ErrNothing)
	return operation{set: true, from: from, to: to}, answer{done: err == nil, unknown: err != nil && !refused}, nil
}

// play lets clients read and set until each has done registerOperations, and returns the history.
// Before one in four operations a client calls disturb.
func (r register) play(ctx context.Context, disturb func(ctx context.Context)) []porcupine.Operation {
	var mu sync.Mutex
	var history []porcupine.Operation
	start := time.Now()
	var g errgroup.Group
	for client := range registerClients {
		g.Go(func() error {
			done := 0
			for attempt := 0; done < registerOperations && attempt < registerAttempts; attempt++ {
				if disturb != nil && rand.IntN(4) == 0 {
					disturb(ctx)
				}
				call := time.Since(start).Nanoseconds()
				var op operation
				var out answer
				var err error
				if rand.IntN(3) == 0 {
					out.value, _, err = r.read(ctx)
				} else {
					op, out, err = r.set(ctx, 1+client*registerAttempts+attempt)
				}
				if err != nil {
					continue // a failed read is not part of the history
				}
				done++
				end := time.Since(start).Nanoseconds()
				if out.unknown {
					end = time.Hour.Nanoseconds() // it may take effect at any time from now on
				}
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: client, Input: op, Output: out, Call: call, Return: end})
				mu.Unlock()
			}
			return nil
		})
	}
	_ = g.Wait() // never fails
	return history
}

// Register lets clients read and set a register concurrently, and checks that one order of all
// operations explains every result. disturb, if not nil, is called now and then and may make
// operations fail.
func Register(t *testing.T, s Store, disturb func(ctx context.Context)) {
	t.Helper()
	history := register{s}.play(t.Context(), disturb)
	sets, unknown := 0, 0
	for _, o := range history {
		switch out := o.Output.(answer); {
		case out.done:
			sets++
		case out.unknown:
			unknown++
		}
	}
	t.Logf("%d operations, %d sets done, of %d nobody knows", len(history), sets, unknown)
	if sets == 0 || disturb == nil && (len(history) != registerClients*registerOperations || unknown > 0) {
		t.Errorf("%d operations, %d sets done, of %d nobody knows: that shows nothing", len(history), sets, unknown)
	}
	if result := porcupine.CheckOperationsTimeout(registerModel(), history, patience); result != porcupine.Ok {
		t.Errorf("the history of %d operations is %s", len(history), result)
	}
}
