package session

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// queryReadCommitted changes the session it runs in, and only where it is that of the connection with
// the process id %d. Behind a pooler it is another's, and would keep the setting for other programs.
const queryReadCommitted = `SELECT set_config('default_transaction_isolation', 'read committed', false)
	WHERE pg_backend_pid() = %d AND current_setting('default_transaction_isolation') <> 'read committed'`

// Prepare lets the pool's connections work at READ COMMITTED where the default is stricter: each
// statement must see what was committed before it. It costs a round trip a connection. Behind a
// pooler the role's default has to be changed, which doctor and workers say.
func Prepare(cfg *pgxpool.Config) {
	before := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if before != nil {
			if err := before(ctx, conn); err != nil {
				return err
			}
		}
		if err := conn.PgConn().Exec(ctx, fmt.Sprintf(queryReadCommitted, conn.PgConn().PID())).Close(); err != nil {
			return fmt.Errorf("set the session's isolation: %w", err)
		}
		return nil
	}
}
