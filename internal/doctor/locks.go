package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// queryHolders reads pg_locks. Tidemark's own advisory locks end with their transactions, so a session that holds one of them outside of a transaction took it by itself.
const queryHolders = `SELECT format('process %s (%s%s)', l.pid, a.usename, coalesce(', ' || nullif(a.application_name, ''), '')),
			CASE WHEN a.xact_start IS NULL THEN 'outside of a transaction' ELSE 'for ' || date_trunc('second', clock_timestamp() - a.xact_start)::text END
		FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted AND l.classid::bigint >> 16 BETWEEN 32001 AND 32255
			AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND (a.state = 'idle' OR a.xact_start < clock_timestamp() - interval '1 minute')
		GROUP BY l.pid, a.usename, a.application_name, a.xact_start ORDER BY a.xact_start NULLS FIRST LIMIT 5`

// locks names the sessions that keep others waiting by advisory locks of Tidemark's namespaces: whoever may log in may take those.
func locks(ctx context.Context, tx pgx.Tx, _ Options) (Finding, error) {
	rows, err := tx.Query(ctx, queryHolders)
	if err != nil {
		return Finding{}, err
	}
	var holders []string
	var holder, since string
	if _, err := pgx.ForEachRow(rows, []any{&holder, &since}, func() error {
		holders = append(holders, holder+" "+since)
		return nil
	}); err != nil {
		return Finding{}, err
	}
	detail := "no session holds advisory locks of Tidemark's for long"
	if len(holders) > 0 {
		detail = fmt.Sprintf("advisory locks of Tidemark's are held by %s", strings.Join(holders, "; "))
	}
	return verdict(len(holders) == 0, Warn, detail,
		"SELECT pg_terminate_backend(…) ends it; deploy/sql/advisory-locks.sql keeps other roles from taking them: see docs/operations/security.md"), nil
}
