package projector

import "github.com/tidemark-go/tidemark/internal/projector/replay"

// ErrStateTooLarge is returned by [Projector.AsOf] and [Projector.Diff] for rows of more than 32 MiB.
var (
	ErrStateTooLarge = replay.ErrStateTooLarge
)

// State is what a projection keeps of one campaign after one of its events.
type State = replay.State

// StateTable is the rows of a table.
type StateTable = replay.StateTable

// ChangeKind says what happened to a row.
type ChangeKind = replay.ChangeKind

// The kinds of changes.
const (
	ChangeAdded   = replay.ChangeAdded
	ChangeRemoved = replay.ChangeRemoved
	ChangeChanged = replay.ChangeChanged
)

// Change is what became of a row between two events.
type Change = replay.Change

// ErrTouched is returned by [Projector.Verify] and its like for a projection that writes to other
// tables than those that it has created, or to those by a name with a schema. Nothing of it is
// kept.
var (
	ErrTouched = replay.ErrTouched
)

// ErrNotVerifiable is returned by [Projector.Verify] and its like for a projection whose rows
// cannot be told apart by campaign; its message names the remedy.
var (
	ErrNotVerifiable = replay.ErrNotVerifiable
)

// VerifyRequest says what [Projector.Verify] looks at: the campaigns named, or a sample, or all.
type VerifyRequest = replay.VerifyRequest

// VerifyReport counts what [Projector.Verify] has looked at and found.
type VerifyReport = replay.VerifyReport

// VerifiedTable counts the rows of a table.
type VerifiedTable = replay.VerifiedTable

// DifferenceKind says in which way something differs.
type DifferenceKind = replay.DifferenceKind

// The kinds of differences.
const (
	DifferenceMissing   = replay.DifferenceMissing   // the journal says there is such a row, and there is none
	DifferenceExtra     = replay.DifferenceExtra     // there is a row that should not be
	DifferenceDifferent = replay.DifferenceDifferent // the row is there, with other values
	DifferenceStray     = replay.DifferenceStray     // the row's campaign is not in the journal
	DifferenceFailed    = replay.DifferenceFailed    // the campaign's events cannot be applied from the first one on
)

// Difference is a row that is not as the journal says.
type Difference = replay.Difference

// WhyRequest names a row of a campaign.
type WhyRequest = replay.WhyRequest

// Why says which events wrote a row as it is.
type Why = replay.Why

// Cause is the event that gave a column the value that it has.
type Cause = replay.Cause
