package projector

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATEs of a function that cannot be called.
const (
	undefinedFunction     = "42883"
	insufficientPrivilege = "42501"
)

// call is how the database applies a group to a projection.
type call struct{ name, sql string }

// install makes k's function in the database unless it is there, and has groups applied by it. A projection without one is applied event by event.
func (p *Projector) install(ctx context.Context, k *known) error {
	file, ok := k.Projection.(*sqlFile)
	if !ok || p.cfg.NoFunctions || k.call.Load() != nil || k.uncallable.Load() {
		return nil
	}
	fn := file.function(p.cfg.Catalogue.AsStored)
	if fn == nil {
		k.uncallable.Store(true)
		return nil
	}
	there, err := p.hasFunction(ctx, k, fn)
	if err == nil && !there {
		err = p.createFunction(ctx, k, fn)
		if err != nil && !IsInfrastructure(err) {
			// Another process may have been quicker. If not, its statements are none for a function, or this role may not make any.
			reason := err
			if there, err = p.hasFunction(ctx, k, fn); err == nil && !there {
				k.uncallable.Store(true)
				p.cfg.Logger.InfoContext(ctx, "SQL file is run statement by statement: the database takes no function of it", "projection", k.name, "reason", reason)
				return nil
			}
		}
	}
	if err != nil {
		return err
	}
	k.call.Store(&call{name: fn.name, sql: fmt.Sprintf(queryCallFunction, pgx.Identifier{k.schema, fn.name}.Sanitize())})
	return nil
}

func (p *Projector) hasFunction(ctx context.Context, k *known, fn *sqlFunction) (there bool, err error) {
	err = p.cfg.Pool.QueryRow(ctx, queryFunctionExists, k.schema, fn.name).Scan(&there)
	return there, err
}

func (p *Projector) createFunction(ctx context.Context, k *known, fn *sqlFunction) error {
	return pgx.BeginFunc(ctx, p.cfg.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, querySearchPath, k.path); err != nil {
			return err
		}
		rows := map[*sqlStatement]bool{}
		for _, handler := range fn.file.handlers {
			for i := range handler.statements {
				prepared, err := tx.Prepare(ctx, "", handler.statements[i].text)
				if err != nil {
					return err
				}
				rows[&handler.statements[i]] = len(prepared.Fields) > 0
			}
		}
		_, err := tx.Exec(ctx, fn.create(pgx.Identifier{k.schema}.Sanitize(), func(s *sqlStatement) bool { return rows[s] }), pgx.QueryExecModeSimpleProtocol)
		return err
	})
}

// calls answers the statements by which the database applies projections. A group keeps to what it began with.
func (p *Projector) calls() map[*known]string {
	calls := map[*known]string{}
	for _, k := range p.sets {
		if call := k.call.Load(); call != nil {
			calls[k] = call.sql
		}
	}
	return calls
}

// callFunction queues the call that applies the units' events.
func (t *transaction) callFunction(k *known) {
	var s stretches
	for _, u := range t.units {
		if u.count() > 0 && t.applies(k, u) {
			t.stretch(&s, k, u.lease.CampaignID, u.place, u.last())
		}
	}
	if len(s.campaigns) > 0 {
		t.use(k)
		t.limitStatements(longestTimeout([]*known{k}))
		t.at = origin{projection: k.name}
		t.queue(t.calls[k], s.campaigns, s.after, s.until)
		t.at = origin{}
	}
}

// uninstall has a projection applied event by event from now on if its function could not even be called: it is gone, or this role may not call it. Whose it
// was the error does not say, for it came before anything ran; but it names the function.
func (p *Projector) uninstall(ctx context.Context, err error) {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Where != "" || (pgErr.Code != undefinedFunction && pgErr.Code != insufficientPrivilege) {
		return
	}
	for _, k := range p.sets {
		if c := k.call.Load(); c != nil && strings.Contains(pgErr.Message, c.name) {
			k.uncallable.Store(true)
			k.call.Store(nil)
			p.cfg.Logger.WarnContext(ctx, "SQL file is run statement by statement from now on: its function cannot be called", "projection", k.name, "error", err)
		}
	}
}
