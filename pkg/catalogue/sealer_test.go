package catalogue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// hungService is a wrapper whose calls to unwrap end with their context.
type hungService struct{ asked *int }

func (hungService) Name() string { return "hung" }

func (hungService) Wrap(context.Context, []byte, []byte) ([]byte, error) {
	return []byte("wrapped"), nil
}

func (h hungService) Unwrap(ctx context.Context, _, _ []byte) ([]byte, error) {
	*h.asked++
	<-ctx.Done()
	return nil, ctx.Err()
}

// okService unwraps keys at once.
type okService struct{ hungService }

func (okService) Name() string { return "ok" }

func (okService) Unwrap(context.Context, []byte, []byte) ([]byte, error) {
	return make([]byte, keyBytes), nil
}

func TestAHungServiceHoldsUpAReadForFiveSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		s, err := NewSealer(hungService{&asked}, okService{})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		read, closed := s.unwrapAll(t.Context(), nil, []storedKey{
			{id: "a", by: "hung"}, {id: "b", by: "ok"}, {id: "c", by: "hung"}, {id: "d", by: "hung"},
		})
		if took := time.Since(begun); took != 5*time.Second || asked != 1 {
			t.Errorf("it took %s and %d calls, want 5s and one: the service is not asked for the other keys", took, asked)
		}
		if len(read) != 1 || read["b"] == nil {
			t.Errorf("%d keys are open, want that of the other service", len(read))
		}
		for _, id := range []string{"a", "c", "d"} {
			if err := closed[id]; !errors.Is(err, ErrWrappingKey) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("key %s: %v", id, err)
			}
		}
	})
}

func TestASealerKeepsTenThousandKeysInMemory(t *testing.T) {
	t.Parallel()
	s, err := NewSealer(okService{})
	if err != nil {
		t.Fatal(err)
	}
	const each = 700
	for n := range 20 {
		keys := map[string]*dataKey{}
		for i := range each {
			id := fmt.Sprint(n*each + i)
			keys[id] = &dataKey{id: id}
		}
		s.keep(0, keys)
		if want := min((n+1)*each, 10_000); len(s.keys) != want {
			t.Fatalf("after %d keys, %d are kept, want %d", (n+1)*each, len(s.keys), want)
		}
	}
	s.keep(0, map[string]*dataKey{"last": {}})
	if found, missing, _ := s.known([]string{"last", "never"}); len(s.keys) != 10_000 || found["last"] == nil || len(missing) != 1 {
		t.Errorf("%d keys are kept, of them the last: %t", len(s.keys), found["last"] != nil)
	}
}
