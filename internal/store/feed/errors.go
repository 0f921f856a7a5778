package feed

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// DecodeError is returned by [Decode] for a payload that does not fit the requested type.
type DecodeError struct {
	Type string // the event's
	Err  error  // from encoding/json; it may quote the payload
}

func (e *DecodeError) Error() string { return fmt.Sprintf("decode payload of %s: %v", e.Type, e.Err) }

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }

// ErrNotFound is returned by [Get], [Find] and [Last].
var ErrNotFound = errors.New("no such event")

// ErrReplaced is returned by reads of several statements that met different histories of the journal,
// because of a failover or a restore between them. A read that begins anew meets one.
var ErrReplaced = errors.New("the journal was replaced during the read: begin anew")

// ErrInvalidQuery means that no event can have a part of a query. The text names the part, the
// reason and the remedy.
var ErrInvalidQuery = errors.New("invalid query")

// ErrUnreadable matches every [*UnreadableError].
var ErrUnreadable = errors.New("the event cannot be read")

// UnreadableError is [journal.UnreadableError].
type UnreadableError struct {
	Campaign string
	Seq      int64
	Position int64
}

// Error names the event and how to continue.
func (e *UnreadableError) Error() string {
	return fmt.Sprintf("event %d of campaign %s at position %d cannot be read: Postgres cannot print its payload or "+
		"metadata; reading goes on after it",
		e.Seq, Shortened(e.Campaign), e.Position)
}

// Is reports whether target is [ErrUnreadable].
func (e *UnreadableError) Is(target error) bool { return target == ErrUnreadable }

// Unreadable returns an [*UnreadableError] if Postgres could not return payload and metadata (both nil),
// and an [*ArchivedError] for an event that [Missing] made.
func (e *Event) Unreadable() error {
	switch {
	case e.archived:
		return e.refused
	case !e.unreadable:
		return nil
	}
	return &UnreadableError{Campaign: e.CampaignID, Seq: e.Seq, Position: e.Position}
}

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
