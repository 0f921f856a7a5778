package event

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/text"
)

// Querier reads from the database: a *pgxpool.Pool, a *pgx.Conn or a pgx.Tx.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Archive reads the events of archived campaigns, as a Reader of package archive does.
//
// Read gives visit the events of the stub's campaign after one seq and up to another, in order, until visit
// returns false. The event is reused after the call.
type Archive interface {
	Read(ctx context.Context, s Stub, after, until int64, visit func(*Event) bool) error
	Positions
}

// Positions reads archived events in order of position: the limits of w apply. until is the position it
// read up to. mark tells which archives there are; known is the mark for which the events are complete
// up to until. With a mark of 0 it returns what it has at hand: perhaps nothing, with a known of 0.
type Positions interface {
	ReadPositions(ctx context.Context, db Querier, mark int64, w Window) (events []Event, until, known int64, err error)
}

// Stub is what the journal keeps of an archived event. In a campaign it stands for all events after
// the one before it, up to itself.
type Stub struct {
	CampaignID string
	Object     string // of the archive
	SHA256     string // of the object's content, in hex
	Bytes      int64  // of the object
}

// Window selects events to read in order of position: those with After < position <= Floor.
type Window struct {
	After, Floor int64
	Events       int   // stop after this many events
	Bytes        int64 // stop once payload and metadata reach about this many bytes, but after at least one event
	// fetch events beyond Bytes too and discard them: a third faster if there are hardly ever any
	Small   bool
	Careful bool // an event is likely to make the read fail: leave out the documents of such events
}

// ArchivedError is returned by reads that meet an archived campaign without an [Archive], or cannot read its
// object. It matches [ErrArchived].
type ArchivedError struct {
	Campaign string // "": events of several, read by position
	Object   string // of the archive
	Err      error  // why it cannot be read; nil: no archive is set
}

// Error names the campaign, the object and what to do.
func (e *ArchivedError) Error() string {
	switch {
	case e.Err != nil && e.Campaign == "":
		return fmt.Sprintf("archived events cannot be read: %v", e.Err)
	case e.Err != nil:
		return fmt.Sprintf("campaign %s is archived, and its events cannot be read: %v", text.Shortened(e.Campaign), e.Err)
	}
	return fmt.Sprintf("campaign %s is archived in %s: set TIDEMARK_ARCHIVE_URL, or bring it back with tidemark "+
		"campaign restore", text.Shortened(e.Campaign), e.Object)
}

// Unwrap returns Err.
func (e *ArchivedError) Unwrap() error { return e.Err }

// Is reports whether target is [ErrArchived].
func (e *ArchivedError) Is(target error) bool { return target == ErrArchived }
