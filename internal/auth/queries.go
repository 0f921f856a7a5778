package auth

// Functions write tokens and sessions and look for their hashes, so that roles need no right to the
// tables: a row each, by a unique index, and no lock that anything else waits for.
const (
	// queryCreate writes the act to the log of operators, and answers NULL where the name is taken.
	queryCreate = `SELECT tidemark.create_token($1, $2, $3, $4::interval, $5, $6, $7, $8::bigint, $9)`

	// queryRevoke writes the act to the log of operators, and answers false where there is no such
	// token.
	queryRevoke = `SELECT tidemark.revoke_token($1, $2, $3, $4, $5::bigint, $6)`

	// queryList reads a table of a row a token.
	queryList = `SELECT id, name, role, created_at, created_by, nullif(expires_at, 'infinity'), last_used_at, revoked_at,
			coalesce(revoked_by, '')
		FROM tidemark.tokens WHERE $1 OR revoked_at IS NULL AND expires_at > clock_timestamp() ORDER BY id`

	queryAny = `SELECT EXISTS (SELECT FROM tidemark.tokens WHERE revoked_at IS NULL AND expires_at > clock_timestamp())`

	queryToken   = `SELECT id, name, role FROM tidemark.use_token($1)`
	querySession = `SELECT id, name, role FROM tidemark.find_session($1)`

	queryLogin  = `SELECT tidemark.begin_session($1, $2, $3::interval)`
	queryLogout = `SELECT tidemark.end_session($1)`

	// queryValid reads a small table, and of browsers those that are logged in.
	queryValid = `SELECT h FROM tidemark.valid_secrets() h`

	// queryHolding answers which of some hashes are of tokens that hold, or of sessions of such.
	queryHolding = `SELECT h FROM tidemark.holding_secrets($1::bytea[]) h`
)
