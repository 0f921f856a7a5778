package testdb

const (
	// queryLock waits for other programs that make the template. The lock is held until queryUnlock or the end of
	// the session.
	queryLock   = `SELECT pg_advisory_lock($1)`
	queryUnlock = `SELECT pg_advisory_unlock($1)`

	queryExists = `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`

	// queryDatabases returns databases that have one of two prefixes, with their comments.
	queryDatabases = `SELECT datname, coalesce(shobj_description(oid, 'pg_database'), '') FROM pg_database
		WHERE starts_with(datname, $1) OR starts_with(datname, $2)`
)
