package admin_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/test/support/acting"
)

// replaced returns a database whose tables of version 1 were replaced by those of version 2. Column
// n tells them apart.
func replaced(t *testing.T) (*pgxpool.Pool, *admin.Acts) {
	t.Helper()
	pool, acts := database(t, 1)
	execAll(t, pool, `UPDATE tidemark.projections SET version = 2 WHERE name = 'p';
		INSERT INTO public.p VALUES ('c001', 2);
		CREATE SCHEMA tidemark_previous_p;
		CREATE TABLE tidemark_previous_p.p (campaign_id text PRIMARY KEY, n int);
		INSERT INTO tidemark_previous_p.p VALUES ('c001', 1);
		INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state)
			VALUES ('p~previous', 'g', 1, 'tidemark_previous_p', '{p}', 'active')`)
	return pool, acts
}

func rollBack(t *testing.T, acts *admin.Acts) admin.Operation {
	t.Helper()
	r := as(auth.Admin)
	r.Confirm = "p"
	o, err := acting.Do(t.Context(), acts, r, "rollbackProjection", "projection=p")
	return operation(t, o, err)
}

// shown reads which version's tables are live.
const shown = `SELECT n FROM public.p`

func TestARollbackIsDoneByAWorkerOnce(t *testing.T) {
	t.Parallel()
	pool, acts := replaced(t)
	o := rollBack(t, acts)
	if o.Kind != admin.OpRollback || o.State != "running" || o.Total != 1 {
		t.Errorf("asked for is %+v", o)
	}
	r := as(auth.Admin)
	r.Confirm = "p"
	if _, err := acting.Do(t.Context(), acts, r, "rollbackProjection", "projection=p"); !errors.Is(err, admin.ErrRollingBack) {
		t.Errorf("a second one that is asked for meanwhile: %v", err)
	}
	if n := scan[int](t, pool, shown); n != 2 {
		t.Errorf("the one who asks has exchanged the tables")
	}
	for _, want := range []bool{true, false} {
		worked, err := runner(t, pool, nil).Step(t.Context())
		if err != nil || worked != want {
			t.Errorf("a step: %t, %v", worked, err)
		}
		if n := scan[int](t, pool, shown); n != 1 {
			t.Errorf("tables of version %d are read", n)
		}
	}
	done, err := acts.Operation(t.Context(), o.ID)
	if err != nil || done.State != "done" || done.Done != 1 {
		t.Errorf("in the end it is %+v, %v", done, err)
	}
	if got := scan[string](t, pool, `SELECT actor || ': ' || reason FROM tidemark.failure_log
		WHERE act = 'rolled_back'`); got != "ada: a test (operation 1)" {
		t.Errorf("the log says %q", got)
	}
}

// A swap commits together with the end of its operation. An operation that was taken over or
// aborted swaps nothing.
func TestARollbackThatIsAnotherWorkersByNowChangesNothing(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]string{
		"taken over": "owner = 'another'",
		"aborted":    "state = 'aborted', ended_at = now()",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, acts := replaced(t)
			rollBack(t, acts)
			execAll(t, pool, `CREATE FUNCTION meanwhile() RETURNS trigger
				LANGUAGE plpgsql AS $$ BEGIN UPDATE tidemark.operations SET `+meanwhile+`; RETURN NEW; END $$;
				CREATE TRIGGER meanwhile BEFORE INSERT ON tidemark.failure_log FOR EACH ROW WHEN (NEW.act = 'rolled_back') EXECUTE FUNCTION meanwhile()`)
			if _, err := runner(t, pool, nil).Step(t.Context()); err != nil {
				t.Error(err)
			}
			if n := scan[int](t, pool, shown); n != 2 {
				t.Errorf("tables of version %d are read", n)
			}
		})
	}
}

func TestARollbackThatIsNotPossibleAnyMoreSaysWhy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ meanwhile, want string }{
		"a rebuild has begun": {
			`INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names, state)
				VALUES ('p~next', 'g', 3, '', '{}', 'requested')`, rebuild.ErrRebuilding.Error(),
		},
		"another rebuild is done": {`UPDATE tidemark.projections SET registered_at = registered_at + interval '1 s'
			WHERE name = 'p~previous'`, rebuild.ErrOtherTables.Error()},
		"they are gone": {`DELETE FROM tidemark.projections
			WHERE name = 'p~previous'`, rebuild.ErrNoPrevious.Error()},
		"they are paused": {
			`INSERT INTO tidemark.pauses (scope, consumer_group, name, actor, reason)
				VALUES ('projection', 'g', 'p~previous', 'ada', 'a test')`, "p~previous is paused",
		},
		"something stands on the tables": {`CREATE MATERIALIZED VIEW public.m AS SELECT n
			FROM public.p`, "materialized view"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, acts := replaced(t)
			o := rollBack(t, acts)
			exec(t, pool, c.meanwhile)
			if worked, err := runner(t, pool, nil).Step(t.Context()); err != nil || !worked {
				t.Errorf("a step: %t, %v", worked, err)
			}
			after, err := acts.Operation(t.Context(), o.ID)
			if err != nil || after.State != "failed" || !strings.Contains(after.Error, c.want) {
				t.Errorf("it is %+v, %v; want %q", after, err, c.want)
			}
			if n := scan[int](t, pool, shown); n != 2 {
				t.Errorf("tables of version %d are read", n)
			}
		})
	}
}

// A refusal that is known at once goes to the caller.
func TestARollbackIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql  string
		want error
	}{
		"unknown": {`UPDATE tidemark.projections SET name = 'q' WHERE name = 'p'`, rebuild.ErrUnknownProjection},
		"being rebuilt": {`INSERT INTO tidemark.projections (name, consumer_group, version, schema_name, table_names,
			state) VALUES ('p~next', 'g', 3, '', '{}', 'requested')`, rebuild.ErrRebuilding},
		"nothing kept":  {`DELETE FROM tidemark.projections WHERE name = 'p~previous'`, rebuild.ErrNoPrevious},
		"being removed": {`UPDATE tidemark.projections SET version = -1 WHERE name = 'p~previous'`, rebuild.ErrNoPrevious},
		"paused": {`INSERT INTO tidemark.pauses (scope, consumer_group, name, actor, reason)
			VALUES ('projection', 'g', 'p~previous', 'ada', 'a test')`, rebuild.ErrBehind},
		"behind in some": {`UPDATE tidemark.failed SET projection = 'p~previous'`, rebuild.ErrBehind},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, acts := replaced(t)
			exec(t, pool, c.sql)
			before := scan[string](t, pool, everything)
			r := as(auth.Admin)
			r.Confirm = "p"
			if _, err := acting.Do(t.Context(), acts, r, "rollbackProjection", "projection=p"); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if scan[string](t, pool, everything) != before {
				t.Error("it left something")
			}
		})
	}
}
