package projector

import "github.com/tidemark-go/tidemark/internal/projector/replay"

// VerifyRequest says what [Projector.Verify] looks at: the campaigns named, or a sample, or all.
type VerifyRequest = replay.VerifyRequest

// VerifyReport counts what [Projector.Verify] has looked at and found.
type VerifyReport = replay.VerifyReport

// WhyRequest names a row of a campaign.
type WhyRequest = replay.WhyRequest
