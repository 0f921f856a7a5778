package event

import (
	"errors"
	"fmt"

	"github.com/tidemark-go/tidemark/internal/text"
)

// Errors of reads.
var (
	// ErrNotFound: the journal has no such event.
	ErrNotFound = errors.New("no such event")
	// ErrInvalidQuery: no event can match a part of the query. The text names the part, the reason and the
	// remedy.
	ErrInvalidQuery = errors.New("invalid query")
	// ErrUnreadable matches every [*UnreadableError].
	ErrUnreadable = errors.New("the event cannot be read")
	// ErrArchived matches every [*ArchivedError], and the errors of the database about archived events: the
	// campaign's events are in an archive, or a read by position would miss archived events. The text names
	// the object. Ask for the campaign with archive.Ask, or bring it back with archive.Restore or tidemark
	// campaign restore.
	ErrArchived = errors.New("the events are archived")
)

// UnreadableError names an event whose payload or metadata Postgres cannot return: a number longer than a
// gigabyte when printed, or a damaged page. All other events can be read. Append refuses such numbers, so
// the event was written past it.
//
// Reads of many events end with it, after all earlier events. To continue, read after its Position or Seq.
type UnreadableError struct {
	Campaign string
	Seq      int64
	Position int64
}

// Error names the event and how to continue.
func (e *UnreadableError) Error() string {
	return fmt.Sprintf("event %d of campaign %s at position %d cannot be read: Postgres cannot print its payload or "+
		"metadata; reading goes on after it",
		e.Seq, text.Shortened(e.Campaign), e.Position)
}

// Is reports whether target is [ErrUnreadable].
func (e *UnreadableError) Is(target error) bool { return target == ErrUnreadable }

// EncodingError is returned by appends and reads on a connection whose client_encoding is not UTF8, on which
// Postgres changes text without an error or refuses it. Nothing was appended. Reads return it too if they get
// times as text (pgx's modes exec and simple protocol) in a format that pgx cannot read.
type EncodingError struct {
	Encoding string // the connection's client_encoding; "": UTF8
	Format   string // setting and value, such as "DateStyle SQL, DMY", if pgx gets results as text and cannot read it
}

// Error names the setting and the remedy.
func (e *EncodingError) Error() string {
	if e.Format != "" {
		return fmt.Sprintf("the connection has %s, and in this default_query_exec_mode pgx reads times as text: add "+
			"datestyle=ISO&intervalstyle=postgres to the database's URL, or use ALTER ROLE … SET", e.Format)
	}
	return fmt.Sprintf("the connection has client_encoding %s, and Tidemark needs UTF8: add client_encoding=UTF8 to the "+
		"database's URL, or ALTER ROLE … SET client_encoding = 'UTF8'", e.Encoding)
}
