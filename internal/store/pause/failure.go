package pause

import "github.com/jackc/pgx/v5"

// queryFailed writes one row by its primary key, and one of the failure log if the projection was
// not paused already. What an operator has paused stays as it is.
const queryFailed = `WITH paused AS (
		INSERT INTO tidemark.pauses AS p (scope, consumer_group, name, reason, actor) VALUES ('projection', $1, $2, $3, $4)
		ON CONFLICT (scope, consumer_group, name) DO UPDATE
		SET reason = excluded.reason, actor = excluded.actor, paused_at = excluded.paused_at, expires_at = excluded.expires_at
		WHERE p.expires_at <= clock_timestamp()
		RETURNING 1
	)
	INSERT INTO tidemark.failure_log (act, consumer_group, projection, actor, reason) SELECT 'paused', $1, $2, $4, $3
		FROM paused`

// Failed queues on batch the pause of a projection that has failed, until it is resumed. It is for
// the projector: worker is who failed, reason at what.
func Failed(batch *pgx.Batch, group, projection, worker, reason string) {
	batch.Queue(queryFailed, group, projection, reason, worker)
}
