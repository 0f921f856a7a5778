package devpg

const queryThere = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)"
