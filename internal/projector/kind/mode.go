package kind

// Mode is projector.Mode.
type Mode string

// The modes. Package projector documents them.
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

// Step is a step of the worker's loop.
type Step string

// The steps, in order.
const (
	StepClaimed Step = "claimed" // leases are held
	StepRead    Step = "read"    // the transaction is open, events have been read
	StepApplied Step = "applied" // projections have queued their effects
	// instead of applied: the culprits are known, and the outcome is about to be committed
	StepDeferring Step = "deferring"
	StepCommitted Step = "committed" // checkpoint and effects are committed
)
