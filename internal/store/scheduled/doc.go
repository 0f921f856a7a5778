// Package scheduled makes appends that are due, and lists and cancels those that are not. It owns
// tidemark.scheduled; package journal adds to it through the function tidemark.append_at.
//
// An append is made exactly once: one transaction appends the events and deletes the row. Within a
// campaign appends are made in the order of (due, id), by any number of workers, because the holder
// of the campaign's lock reads what is first (docs/adr/0012). All functions are safe for concurrent
// use.
package scheduled
