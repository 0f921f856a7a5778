package projector

import "github.com/tidemark-go/tidemark/internal/projector/replay"

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

// WhyRequest names a row of a campaign.
type WhyRequest = replay.WhyRequest
