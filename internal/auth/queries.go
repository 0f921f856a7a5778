package auth

// Functions write tokens and sessions and look up their hashes, so roles need no privilege on the
// tables. Each reads or writes one row by a unique index. Nothing else waits for their locks.
const (
	// queryCreate also writes to the operator log. It returns NULL if the name is taken.
	queryCreate = `SELECT tidemark.create_token($1, $2, $3, $4::interval, $5, $6, $7, $8::bigint, $9)`

	// queryRevoke also writes to the operator log. It returns false if there is no token of that name.
	queryRevoke = `SELECT tidemark.revoke_token($1, $2, $3, $4, $5::bigint, $6)`

	// queryList reads the whole table, which has a row a token.
	queryList = `SELECT id, name, role, created_at, created_by, nullif(expires_at, 'infinity'), last_used_at, revoked_at,
			coalesce(revoked_by, '')
		FROM tidemark.tokens WHERE $1 OR revoked_at IS NULL AND expires_at > clock_timestamp() ORDER BY id`

	queryAny = `SELECT EXISTS (SELECT FROM tidemark.tokens WHERE revoked_at IS NULL AND expires_at > clock_timestamp())`

	queryToken   = `SELECT id, name, role FROM tidemark.use_token($1)`
	querySession = `SELECT id, name, role FROM tidemark.find_session($1)`

	queryLogin  = `SELECT tidemark.begin_session($1, $2, $3::interval)`
	queryLogout = `SELECT tidemark.end_session($1)`

	// queryValid reads all valid tokens and up to 100,000 sessions of browsers.
	queryValid = `SELECT h FROM tidemark.valid_secrets() h`

	// queryHolding returns the given hashes that belong to valid tokens or their sessions.
	queryHolding = `SELECT h FROM tidemark.holding_secrets($1::bytea[]) h`
)
