package ndjson

// queryImportErased appends as append_all does, and accepts what only erasures write.
const queryImportErased = `SELECT campaign_id, event_id, seq, "position", duplicate
	FROM tidemark.import_erased($1::jsonb)`

// queryTimeout reads a setting.
const queryTimeout = `SELECT current_setting('statement_timeout')`
