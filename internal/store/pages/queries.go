package pages

// queryNotices probes the primary key for each position.
const queryNotices = `SELECT "position", event_type, intent, tags FROM tidemark.notices($1, $2)`
