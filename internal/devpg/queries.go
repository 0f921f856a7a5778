package devpg

// queryThere reports whether a database exists.
const queryThere = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)"
