package projection

// Mode decides how the events of a consumer group reach its projections.
type Mode string

// The modes.
const (
	ModeOutboxApplyOnly Mode = "outbox_apply_only" // appends enqueue, workers apply; the default
	// appends apply (ApplyInline of the projector) and do not enqueue; Run brings failed campaigns forward
	ModeInlineApplyOnly Mode = "inline_apply_only"
	ModeShadowOnly      Mode = "shadow_only"  // appends enqueue, Run applies and rolls back
	ModeEnqueueOnly     Mode = "enqueue_only" // appends enqueue, Run registers the group and applies nothing
)
