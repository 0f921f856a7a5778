package admin_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/acting"
)

// stuck is a sink that blocks until its context ends.
type stuck struct{ called chan struct{} }

func (s stuck) Name() string { return "stuck" }

func (s stuck) Publish(ctx context.Context, _ []publisher.Event) error {
	s.called <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

func TestAnOperationUnderALeaseEndsWhenItIsAborted(t *testing.T) {
	t.Parallel()
	pool, acts := database(t, 1)
	sink := stuck{make(chan struct{}, 1)}
	outcome, err := acting.Do(t.Context(), acts, typing("s"), "republish", "topic=t", "publisher=s",
		"campaign=c001", "from=1")
	op := operation(t, outcome, err)
	r := runner(t, pool, func(c *admin.RunnerConfig) {
		c.Topics, c.Publishers = []publisher.Topic{{Name: "t"}},
			[]publisher.Publisher{{Name: "s", Sink: sink, Topics: []string{"t"}}}
	})
	done := make(chan error, 1)
	go func() {
		_, err := r.Step(t.Context())
		done <- err
	}()
	<-sink.called
	// Another worker does not get the operation meanwhile.
	if worked, err := runner(t, pool, func(c *admin.RunnerConfig) {
		c.Owner, c.Topics, c.Publishers = "other", []publisher.Topic{{Name: "t"}},
			[]publisher.Publisher{{Name: "s", Sink: sink, Topics: []string{"t"}}}
	}).Step(t.Context()); worked || err != nil {
		t.Errorf("another worker has it too: %t, %v", worked, err)
	}
	if _, err := acting.Do(t.Context(), acts, as(auth.Operator), "abortOperation", fmt.Sprint("id=", op.ID)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got, err := acts.Operation(t.Context(), op.ID); err != nil || got.State != "aborted" || got.Error != "" ||
		got.EndedBy != "ada" {
		t.Errorf("it is %+v, %v", got, err)
	}
}

func TestWhatIsOldIsPruned(t *testing.T) {
	t.Parallel()
	pool, _ := database(t, 0)
	exec(t, pool, `INSERT INTO tidemark.act_keys (actor, key, act, request, at)
		SELECT 'ada', n::text, 'paused', '', now() - n * interval '1 day' + interval '1 hour' FROM generate_series(1, 10) n;
		INSERT INTO tidemark.operations (kind, request, actor, state, created_at, ended_at)
			VALUES ('replay', '{}', 'ada', 'done', now() - interval '1 year', now() - interval '91 days'),
			('replay', '{}', 'ada', 'done', now() - interval '1 year', now() - interval '89 days'),
				('verify', '{}', 'ada', 'running', now() - interval '1 year', NULL);
		INSERT INTO tidemark.operation_items (operation_id, ord, campaign_id, subject, seq)
			VALUES (1, 1, 'a', 'p', 1), (2, 1, 'a', 'p', 1)`)
	if _, err := runner(t, pool, nil).Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := scan[int](t, pool, `SELECT count(*) FROM tidemark.act_keys`); n != 7 {
		t.Errorf("%d keys are left, want those of a week", n)
	}
	if got := scan[string](t, pool, `SELECT concat((SELECT string_agg(id::text, ' ' ORDER BY id)
		FROM tidemark.operations), ', ', (SELECT string_agg(operation_id::text, ' ')
		FROM tidemark.operation_items))`); got != "2 3, 2" {
		t.Errorf("left are %s", got)
	}
}
