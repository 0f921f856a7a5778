package projector

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/pkg/lease"
)

// Constraints and constraint triggers that are deferred are checked by COMMIT, which does not say which event violates one. Most projections have none, so nobody looks ahead until a COMMIT
// has failed; then each part is made to show what COMMIT will say of it.
const (
	// querySavepointCheck and queryUndoCheck stand around queryCheckConstraints: after it they are deferred as before, and COMMIT runs the triggers that have effects, once.
	querySavepointCheck = `SAVEPOINT tidemark_check`
	queryUndoCheck      = `ROLLBACK TO SAVEPOINT tidemark_check`

	// queryCheckConstraints checks all that the transaction has put off, with the locks that COMMIT would take.
	queryCheckConstraints = `SET CONSTRAINTS ALL IMMEDIATE`

	// queryPutsOff reads the catalogue: whether tables of the group's projections have constraints that may be deferred.
	queryPutsOff = `SELECT EXISTS (
		SELECT FROM tidemark.projections p JOIN pg_catalog.pg_namespace n ON n.nspname = p.schema_name JOIN pg_catalog.pg_class r ON r.relnamespace = n.oid AND r.relname = ANY (p.table_names)
			JOIN pg_catalog.pg_constraint c ON r.oid IN (c.conrelid, c.confrelid)
		WHERE p.consumer_group = $1 AND c.condeferrable)`
)

// queueLookAhead queues that the server checks what is left to COMMIT.
func (p *pipeline) queueLookAhead() {
	for _, sql := range []string{querySavepointCheck, queryCheckConstraints, queryUndoCheck} {
		p.queue(sql)
	}
}

// looksAhead says whether what COMMIT checks is to be checked at once, so that its failure is somebody's: of projections that have violated a deferred constraint, of all after a COMMIT that failed, and
// where there will be no COMMIT.
func (t *transaction) looksAhead(k *known) bool {
	return t.trying || k.violates.Load() || t.p.uncommitted.Load() > 0
}

// lookAhead has the server check what a projection leaves to COMMIT.
func (t *transaction) lookAhead(ctx context.Context, k *known) error {
	if !t.looksAhead(k) {
		return nil
	}
	t.at = origin{projection: k.name}
	t.queueLookAhead()
	err := t.flush(ctx)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && !t.trying && !t.broken(ctx, k, err) {
		k.violates.Store(true)
	}
	return err
}

// notCommitted notes that a transaction whose statements all went through has failed, for a reason
// that is not the infrastructure's: the next ones are applied savepointed, and look ahead.
func (a *applier) notCommitted(ctx context.Context, err error) {
	var named *ApplyError
	if err == nil || errors.As(err, &named) || errors.Is(err, lease.ErrLost) || a.infrastructure(ctx, err) {
		return
	}
	a.uncommitted.Store(savepointsAfter)
}
