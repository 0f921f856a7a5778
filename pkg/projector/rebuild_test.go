package projector_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// registry returns the registered projections, each as name, version and state.
func registry(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	return query[string](t, pool, `SELECT coalesce(string_agg(format('%s %s %s', name, version, state), ', '
		ORDER BY name), '') FROM tidemark.projections`)
}

// contents returns all rows of the tables of kinds(name) in a schema.
func contents(t *testing.T, pool *pgxpool.Pool, schema, name string) string {
	t.Helper()
	var all strings.Builder
	for _, table := range kindsTables(name) {
		all.WriteString(strings.ReplaceAll(query[string](t, pool, fmt.Sprintf(`SELECT '%s: ' || coalesce(string_agg(r::text,
			' ' ORDER BY r::text), '') FROM %s.%s r`, table, schema, table)), "_"+name, "_") + "\n")
	}
	return all.String()
}

// moveAll appends to twenty campaigns.
func moveAll(t *testing.T, pool *pgxpool.Pool, by ...int) {
	t.Helper()
	for i := range 20 {
		appendMoves(t, pool, fmt.Sprintf("c%02d", i), append([]int{i}, by...)...)
	}
}

// folded returns the rows of a version applied from scratch, by projections of another name.
func folded(t *testing.T, pool *pgxpool.Pool, version int) string {
	t.Helper()
	name := fmt.Sprintf("fold%d", query[int](t, pool, `SELECT count(*) FROM tidemark.consumer_groups`))
	p := workerOf(t, pool, func(c *projector.Config) { c.ConsumerGroup = name }, kindsOf(t, name, version)...)
	drain(t, p)
	return contents(t, pool, "tidemark_views", name)
}

func TestAHigherVersionIsBuiltBesideTheOneThatIsReadAndTakesItsPlace(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	one := workerOf(t, pool, nil, kindsOf(t, "k", 1)...)
	moveAll(t, pool, 1, 2, 3)
	drain(t, one)
	two := workerOf(t, pool, nil, kindsOf(t, "k", 2)...)
	if err := two.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	const building = "document_k 1 active, document_k~next 2 copying, file_k 1 active, file_k~next 2 copying, " +
		"handlers_k 1 active, handlers_k~next 2 copying"
	if s := registry(t, pool); s != building {
		t.Fatalf("registered: %s", s)
	}
	moveAll(t, pool, 4)
	drain(t, one) // the old worker continues with what it knows
	if got, want := contents(t, pool, "tidemark_views", "k"), folded(t, pool, 1); got != want {
		t.Errorf("while it is rebuilt the tables hold\n%swant\n%s", got, want)
	}
	drain(t, two)
	if got, want := contents(t, pool, "tidemark_views", "k"), folded(t, pool, 2); got != want {
		t.Errorf("rebuilt tables hold\n%swant\n%s", got, want)
	}
	const kept = "document_k 2 active, document_k~previous 1 active, file_k 2 active, file_k~previous 1 active, " +
		"handlers_k 2 active, handlers_k~previous 1 active"
	if s := query[string](t, pool, `SELECT string_agg(format('%s %s %s', name, version, state), ', ' ORDER BY name)
		FROM tidemark.projections WHERE consumer_group = 'default'`); s != kept {
		t.Fatalf("registered: %s", s)
	}

	// Each version continues with tables of its own.
	moveAll(t, pool, 5, 7, 1)
	drain(t, one)
	drain(t, two)
	drain(t, one)
	if got, want := contents(t, pool, "tidemark_views", "k"), folded(t, pool, 2); got != want {
		t.Errorf("afterwards the tables hold\n%swant\n%s", got, want)
	}
	for _, kind := range []string{"document", "handlers", "file"} {
		if n := query[int](t, pool, `SELECT count(*) FROM tidemark.failed WHERE projection LIKE $1`, kind+"%"); n > 0 {
			t.Errorf("%s is behind in %d campaigns", kind, n)
		}
	}
	if s := query[string](t, pool, `SELECT string_agg(r::text, ' ' ORDER BY r::text)
		FROM tidemark_previous_file_k.file_k r`) + "\n"; !strings.HasSuffix(folded(t, pool, 1), "file_: "+s) {
		t.Errorf("the previous tables hold %s", s)
	}
	if n := query[int](t, pool, `SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'tidemark\_next%'`); n > 0 {
		t.Errorf("%d schemas are left", n)
	}
}

func TestAProjectionIsRebuiltOnDemandWhileItIsAppliedAndRead(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var workers errgroup.Group
	for range 2 {
		p := workerOf(t, pool, func(c *projector.Config) { c.PollInterval = 100 * time.Millisecond; c.GroupEvents = 7 },
			kindsOf(t, "k", 1)...)
		workers.Go(func() error { return p.Run(ctx) })
	}
	moveAll(t, pool, 1, 2, 3)
	within(t, "the projections are registered", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM tidemark.projections WHERE state = 'active'`) == 3
	})
	share := 1.0
	for _, name := range []string{"document_k", "handlers_k", "file_k"} {
		if begun, err := rebuild.StartRebuild(ctx, pool, name, rebuild.Options{MaxShare: &share},
			failed.Act{By: "ada"}); err != nil || !begun {
			t.Fatal(begun, err)
		}
	}
	for i := range 10 {
		moveAll(t, pool, i)
	}
	within(t, "all are rebuilt", func() bool {
		return query[int](t, pool, `SELECT count(*) FROM tidemark.failure_log WHERE act = 'rebuilt'`) == 3
	})
	moveAll(t, pool, 6)
	within(t, "all is applied", func() bool {
		return query[bool](t, pool, `SELECT NOT EXISTS (SELECT FROM tidemark.outbox)
			AND NOT EXISTS (SELECT FROM tidemark.failed)`)
	})
	stop()
	if err := workers.Wait(); err != nil {
		t.Fatal(err)
	}
	want := folded(t, pool, 1)
	if got := contents(t, pool, "tidemark_views", "k"); got != want {
		t.Errorf("rebuilt tables hold\n%swant\n%s", got, want)
	}
}
