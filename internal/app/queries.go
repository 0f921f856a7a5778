package app

// queryRoom returns the role's connection limit, and what its other sessions leave of it.
const queryRoom = `SELECT r.rolconnlimit, r.rolconnlimit - (SELECT count(*) FROM pg_catalog.pg_stat_activity a
		WHERE a.usesysid = r.oid AND a.pid <> pg_catalog.pg_backend_pid())::integer
		FROM pg_catalog.pg_roles r WHERE r.rolname = session_user AND r.rolconnlimit >= 0 AND NOT r.rolsuper`
