package auth

// Statements on tokens and sessions: a row each, by a unique index, and no lock that anything else waits for.
const (
	queryCreate = `INSERT INTO tidemark.tokens (name, role, hash, created_by, expires_at) VALUES ($1, $2, $3, $4, coalesce(now() + $5::interval, 'infinity'))
		ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING RETURNING id`

	// queryList reads a table of a row a token.
	queryList = `SELECT id, name, role, created_at, created_by, nullif(expires_at, 'infinity'), last_used_at, revoked_at, coalesce(revoked_by, '')
		FROM tidemark.tokens WHERE $1 OR revoked_at IS NULL AND expires_at > clock_timestamp() ORDER BY id`

	queryRevoke = `UPDATE tidemark.tokens SET revoked_at = clock_timestamp(), revoked_by = $2 WHERE name = $1 AND revoked_at IS NULL`

	// queryToken finds a token that holds, and whether its last use is worth writing down.
	queryToken = `SELECT id, name, role, last_used_at IS NULL OR last_used_at < clock_timestamp() - interval '1 minute'
		FROM tidemark.tokens WHERE hash = $1 AND revoked_at IS NULL AND expires_at > clock_timestamp()`

	queryUsed = `UPDATE tidemark.tokens SET last_used_at = clock_timestamp() WHERE id = $1`

	queryAny = `SELECT EXISTS (SELECT FROM tidemark.tokens WHERE revoked_at IS NULL AND expires_at > clock_timestamp())`

	// queryLogin also deletes some sessions that are over.
	queryLogin = `WITH over AS (
			DELETE FROM tidemark.sessions WHERE hash = ANY (ARRAY(SELECT s.hash FROM tidemark.sessions s WHERE s.expires_at < clock_timestamp() ORDER BY s.expires_at LIMIT 100 FOR UPDATE SKIP LOCKED))
		)
		INSERT INTO tidemark.sessions (hash, token_id, expires_at) VALUES ($1, $2, clock_timestamp() + $3::interval)`

	querySession = `SELECT t.id, t.name, t.role FROM tidemark.sessions s JOIN tidemark.tokens t ON t.id = s.token_id
		WHERE s.hash = $1 AND s.expires_at > clock_timestamp() AND t.revoked_at IS NULL AND t.expires_at > clock_timestamp()`

	// queryValid reads a small table, and of browsers those that are logged in.
	queryValid = `SELECT hash FROM tidemark.tokens WHERE revoked_at IS NULL AND expires_at > clock_timestamp()
		UNION ALL (SELECT hash FROM tidemark.sessions WHERE expires_at > clock_timestamp() LIMIT 100000)`

	// queryHolding answers which of some hashes are of tokens that hold, or of sessions of such.
	queryHolding = `SELECT h FROM unnest($1::bytea[]) h
		WHERE EXISTS (SELECT FROM tidemark.tokens t WHERE t.hash = h AND t.revoked_at IS NULL AND t.expires_at > clock_timestamp())
			OR EXISTS (SELECT FROM tidemark.sessions s JOIN tidemark.tokens t ON t.id = s.token_id
				WHERE s.hash = h AND s.expires_at > clock_timestamp() AND t.revoked_at IS NULL AND t.expires_at > clock_timestamp())`

	queryLogout = `DELETE FROM tidemark.sessions WHERE hash = $1`
)
