package devpg

// queryThere says whether there is a database of a name.
const queryThere = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)"
