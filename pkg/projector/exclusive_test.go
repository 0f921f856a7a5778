package projector_test

import (
	"bytes"
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// exclusiveActs returns the acts that take the registry's lock exclusively, by the functions that
// take it. before prepares the database, and act runs. An act that gives up on a held lock is
// repeated until the query done returns true.
func exclusiveActs() map[string]struct {
	before func(t *testing.T, pool *pgxpool.Pool)
	act    func(t *testing.T, pool *pgxpool.Pool) error
	done   string
} {
	by := failed.Act{By: "ada", Reason: "a test"}
	rebuilt := func(t *testing.T, pool *pgxpool.Pool) {
		t.Helper()
		drain(t, workerOf(t, pool, nil, tripled(1)))
		drain(t, workerOf(t, pool, nil, tripled(2)))
	}
	requested := func(t *testing.T, pool *pgxpool.Pool) {
		t.Helper()
		drain(t, workerOf(t, pool, nil, tripled(1)))
	}
	copied := func(t *testing.T, pool *pgxpool.Pool) {
		t.Helper()
		requested(t, pool)
		if err := workerOf(t, pool, nil, tripled(2)).Register(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	none := func(*testing.T, *pgxpool.Pool) {}
	return map[string]struct {
		before func(t *testing.T, pool *pgxpool.Pool)
		act    func(t *testing.T, pool *pgxpool.Pool) error
		done   string
	}{
		"Enter": {none, func(t *testing.T, pool *pgxpool.Pool) error {
			return workerOf(t, pool, nil, tripled(1)).Register(t.Context())
		}, `SELECT count(*) = 1 FROM tidemark.projections WHERE name = 'counters' AND state = 'active'`},
		"BeginRebuild": {requested, func(t *testing.T, pool *pgxpool.Pool) error {
			return workerOf(t, pool, nil, tripled(2)).Register(t.Context())
		}, `SELECT count(*) = 1 FROM tidemark.projections WHERE name = 'counters~next' AND version = 2
			AND state <> 'requested'`},
		"EndCopy, SwapIfReady": {copied, func(t *testing.T, pool *pgxpool.Pool) error {
			_, err := workerOf(t, pool, nil, tripled(2)).Drain(t.Context())
			return err
		}, `SELECT count(*) = 1 FROM tidemark.projections WHERE name = 'counters' AND version = 2`},
		"withdraw, take": {copied, func(t *testing.T, pool *pgxpool.Pool) error {
			return abort(t.Context(), pool, "counters", by)
		}, `SELECT count(*) = 1 FROM tidemark.projections WHERE name LIKE 'counters%'`},
		"Rollback": {rebuilt, func(t *testing.T, pool *pgxpool.Pool) error {
			return rebuild.Rollback(t.Context(), pool, "counters", rebuild.RollbackOptions{AllowBehind: -1}, by)
		}, `SELECT count(*) = 1 FROM tidemark.projections WHERE name = 'counters' AND version = 1`},
		"Remove": {requested, func(t *testing.T, pool *pgxpool.Pool) error {
			return rebuild.Remove(t.Context(), pool, "counters", true, by)
		}, `SELECT count(*) = 0 FROM tidemark.projections WHERE name LIKE 'counters%'`},
	}
}

// TestWhatTakesTheRegistrysLockIsKnown reads the code. Each function that takes the lock
// exclusively must be in exclusiveActs, so that the next test covers it.
func TestWhatTakesTheRegistrysLockIsKnown(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"Exclusively": true, "do": true, "holders": true}
	for name := range exclusiveActs() {
		for _, one := range strings.Split(name, ", ") {
			known[one] = true
		}
	}
	files, err := filepath.Glob("../../internal/projector/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		code, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range code.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				ast.Inspect(f, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok && slices.Contains([]string{"Exclusively", "exclusive", "queryRegistryExclusive"},
						id.Name) {
						found[f.Name.Name] = true
					}
					return true
				})
			}
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		allowed := 0
		if strings.HasSuffix(filepath.ToSlash(file), "/registry/queries.go") {
			allowed = 1 // queryRegistryExclusive
		}
		allowed += bytes.Count(text, []byte("IN ACCESS SHARE MODE")) // as every read takes it
		if bytes.Count(text, []byte("pg_advisory_xact_lock("))+bytes.Count(text, []byte("LOCK TABLE")) > allowed {
			t.Errorf("%s takes an exclusive lock that others may queue behind: use registry.Exclusively", file)
		}
	}
	if !maps.Equal(found, known) {
		t.Errorf("the registry's lock is taken by %v, the acts are %v", slices.Sorted(maps.Keys(found)),
			slices.Sorted(maps.Keys(known)))
	}
}

// TestOthersGoOnWhileTheRegistryIsInUse holds the registry's lock shared in an idle transaction, as
// an application does after ApplyInline. An act waits for it, and other workers must go on.
func TestOthersGoOnWhileTheRegistryIsInUse(t *testing.T) {
	t.Parallel()
	for name, one := range exclusiveActs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			appendMoves(t, pool, "a", 1, 2)
			appendMoves(t, pool, "b", 1)
			one.before(t, pool)
			same := workerOf(t, pool, nil, ledger())
			other := workerOf(t, pool, func(c *projector.Config) { c.ConsumerGroup = "other" }, newPicky(nil))
			drain(t, same)
			drain(t, other)
			running(t, same)
			running(t, other)
			_, end := elsewhere(t, pool, `SELECT pg_advisory_xact_lock_shared(tidemark.lock_key(32003,
				hashtextextended('default', 0)))`)
			ended := make(chan error, 1)
			go func() {
				var err error
				for held := true; held; {
					if err = one.act(t, pool); err != nil && !failure.IsInfrastructure(err) {
						break
					}
					err = pool.QueryRow(t.Context(), "SELECT NOT ("+one.done+")").Scan(&held)
				}
				ended <- err
			}()
			const asks = `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'
				AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`
			for range 3 {
				within(t, "the act waits for the registry", func() bool { return query[bool](t, pool, asks) })
				for _, table := range []string{"ledger", "picky"} {
					appendMoves(t, pool, "a", 1)
					head := query[int](t, pool, `SELECT max(seq) FROM tidemark.journal`)
					within(t, table+" goes on while the act waits", func() bool {
						return query[int](t, pool, `SELECT count(*) FROM `+table+` WHERE campaign_id = 'a'`) == head
					})
				}
			}
			if query[bool](t, pool, one.done) {
				t.Error("the act did not wait for the transaction that uses the registry")
			}
			end()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAnActSaysForWhomItWaits holds the registry's lock shared. A registration waits until it is
// free, other acts give up after a while.
func TestAnActSaysForWhomItWaits(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	drain(t, workerOf(t, pool, nil, tripled(1)))
	_, end := elsewhere(t, pool, `SELECT pg_advisory_xact_lock_shared(tidemark.lock_key(32003,
		hashtextextended('default', 0)))`)
	const named = `application "reports", idle in transaction, in a transaction for `
	err := rebuild.Remove(t.Context(), pool, "counters", true, failed.Act{By: "ada"})
	if err == nil || !strings.Contains(err.Error(), named) || !failure.IsInfrastructure(err) {
		t.Errorf("Remove = %v, want %q", err, named)
	}
	log := &lockedBuffer{}
	p := workerOf(t, pool, func(c *projector.Config) { c.Logger = slog.New(slog.NewJSONHandler(log, nil)) }, ledger())
	registered := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	go func() { registered <- p.Register(ctx) }()
	within(t, "the log names who is in the way", func() bool {
		return strings.Contains(log.String(), strings.ReplaceAll(named, `"`, `\"`)) &&
			strings.Contains(log.String(), `"registering":"ledger"`)
	})
	end()
	if err := <-registered; err != nil {
		t.Error(err)
	}
}

// TestWhatARemovalLeftBehindIsNoConcernOfTheNext starts from a removal that died before it deleted
// its rows in tidemark.failed.
func TestWhatARemovalLeftBehindIsNoConcernOfTheNext(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	appendMoves(t, pool, "a", 1, 2, 3)
	drain(t, workerOf(t, pool, nil, ledger()))
	exec(t, pool, `DROP TABLE ledger`)
	exec(t, pool, `DELETE FROM tidemark.projections`)
	exec(t, pool, `INSERT INTO tidemark.failed (campaign_id, projection, consumer_group, next_seq, status,
		next_attempt_at) VALUES ('a', 'ledger', 'default', 3, 'failed', now()),
		('b', 'ledger', 'default', 1, 'dead', 'infinity')`)
	drain(t, workerOf(t, pool, nil, ledger()))
	expectPairs(t, pool, "")
	if n := query[int](t, pool, `SELECT count(*) FROM ledger`); n != 3 {
		t.Errorf("%d events are applied, want 3", n)
	}
}
