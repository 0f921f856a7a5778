// Package publish kills and stops workers that publish, disturbs their connections to the broker
// and to Postgres, makes the broker refuse events, and makes pairs change hands. Then it compares
// the arrived events with the journal.
package publish
