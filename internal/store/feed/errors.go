package feed

import (
	"errors"
	"slices"
	"strings"
)

// ErrReplaced is returned by reads of several statements that met different histories of the journal,
// because of a failover or a restore between them. A read that begins anew meets one.
var ErrReplaced = errors.New("the journal was replaced during the read: begin anew")

// SQLState returns the code of an error of the database, through any driver, or "".
func SQLState(err error) string {
	var state interface{ SQLState() string }
	if !errors.As(err, &state) {
		return ""
	}
	return state.SQLState()
}

// CannotRead reports whether a read failed because of an event's content.
func CannotRead(err error) bool {
	const limitExceeded, internal, corrupted = "54000", "XX000", "XX001"
	return slices.Contains([]string{limitExceeded, internal, corrupted}, SQLState(err))
}

// documents is the part of a column list that careful replaces.
const documents = "tags, payload, metadata, nullif("

// careful makes a read skip unreadable documents. It prints each document twice, so use it only
// after a read has failed.
func careful(query string) string {
	query = strings.Replace(query, documents, `tags, CASE WHEN tidemark.readable(payload, metadata) THEN payload END,
		CASE WHEN metadata IS NOT NULL AND tidemark.readable(payload, metadata) THEN metadata END, nullif(`, 1)
	return strings.Replace(query, listDocuments,
		`CASE WHEN NOT $5 AND tidemark.readable(payload, metadata) THEN payload END,
		CASE WHEN NOT $5 AND metadata IS NOT NULL AND tidemark.readable(payload, metadata) THEN metadata END`, 1)
}
