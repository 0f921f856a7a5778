// Package publish kills and stops workers that publish, spoils their connections to the broker and
// to Postgres, has events refused and pairs change hands, and compares what has arrived with the
// journal.
package publish
