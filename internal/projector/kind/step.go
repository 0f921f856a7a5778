package kind

// Step is a step of the worker's loop.
type Step = string

// The steps of the worker's loop, in order.
const (
	StepClaimed = "claimed" // leases are held
	StepRead    = "read"    // the transaction is open, events have been read
	StepApplied = "applied" // projections have queued their effects
	// instead of applied: the culprits are known, and the outcome is about to be committed
	StepDeferring = "deferring"
	StepCommitted = "committed" // checkpoint and effects are committed
)
