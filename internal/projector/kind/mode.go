package kind

// Mode is projector.Mode.
type Mode string

// The modes, which package projector explains.
const (
	ModeOutboxApplyOnly Mode = "outbox_apply_only"
	ModeInlineApplyOnly Mode = "inline_apply_only"
	ModeShadowOnly      Mode = "shadow_only"
	ModeEnqueueOnly     Mode = "enqueue_only"
)

// Modes lists the modes.
func Modes() []Mode {
	return []Mode{ModeOutboxApplyOnly, ModeInlineApplyOnly, ModeShadowOnly, ModeEnqueueOnly}
}

// Step is a place in the loop.
type Step string

// The steps, in order.
const (
	StepClaimed Step = "claimed" // leases are held
	StepRead    Step = "read"    // the transaction is open, events are read
	StepApplied Step = "applied" // projections have queued their effects
	// instead: the culprits are found, what follows from them is about to be committed with the rest
	StepDeferring Step = "deferring"
	StepCommitted Step = "committed" // checkpoint and effects are committed
)
