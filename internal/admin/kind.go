package admin

// Kind is a kind of act, as named in tidemark.operator_log.
type Kind string

// The kinds of acts, as the operators' log names them.
const (
	ActRequeue         Kind = "failed_requeued"
	ActResolve         Kind = "failed_resolved"
	ActUnresolve       Kind = "failed_unresolved"
	ActPause           Kind = "paused"
	ActResume          Kind = "resumed"
	ActReplay          Kind = "campaign_replayed"
	ActRepairGaps      Kind = "gaps_repaired"
	ActStartRebuild    Kind = "rebuild_started"
	ActPauseRebuild    Kind = "rebuild_paused"
	ActResumeRebuild   Kind = "rebuild_resumed"
	ActAbortRebuild    Kind = "rebuild_aborted"
	ActSwapRebuild     Kind = "rebuild_swap_requested"
	ActRollback        Kind = "projection_rolled_back"
	ActPausePublisher  Kind = "publisher_paused"
	ActResumePublisher Kind = "publisher_resumed"
	ActResetPublisher  Kind = "publisher_reset"
	ActRetryParked     Kind = "parked_retried"
	ActResolveParked   Kind = "parked_resolved"
	ActDrain           Kind = "worker_drained"
	ActUndrain         Kind = "worker_undrained"
	ActRepublish       Kind = "replay_started"
	ActRemove          Kind = "projection_removed"
	ActRemoveGroup     Kind = "group_removed"
	ActCreateToken     Kind = "token_created"
	ActRevokeToken     Kind = "token_revoked"
	ActCancelScheduled Kind = "scheduled_cancelled"
	ActReschedule      Kind = "rescheduled"
	ActErase           Kind = "erased"
	ActAbandonErasure  Kind = "erasure_abandoned"
	ActArchive         Kind = "archived"
	ActRestore         Kind = "restored"
	ActRotateKeys      Kind = "keys_rotated"
	ActDeleteKey       Kind = "key_deleted"
	ActTrustKey        Kind = "wrapping_key_trusted"
	ActRepairCopy      Kind = "copy_repaired"
	ActStartOperation  Kind = "operation_started"
	ActAbortOperation  Kind = "operation_aborted"
)

// Kinds returns all kinds of acts.
func Kinds() []Kind {
	return []Kind{
		ActRequeue, ActResolve, ActUnresolve, ActPause, ActResume, ActReplay, ActRepairGaps, ActStartRebuild,
		ActPauseRebuild, ActResumeRebuild, ActAbortRebuild, ActSwapRebuild,
		ActRollback, ActPausePublisher, ActResumePublisher, ActResetPublisher, ActRetryParked, ActResolveParked,
		ActDrain, ActUndrain, ActRepublish, ActRemove, ActRemoveGroup,
		ActCreateToken, ActRevokeToken, ActCancelScheduled, ActReschedule, ActErase, ActAbandonErasure,
		ActRotateKeys, ActDeleteKey, ActTrustKey,
		ActArchive, ActRestore, ActRepairCopy, ActStartOperation, ActAbortOperation,
	}
}

// Written returns the kinds that functions of the database write, whoever calls them: tidemark.archive,
// restore, begin_erasure, abandon_erasure, erase, rewrap_keys and trust_wrapping_key.
func Written() []Kind {
	return []Kind{
		"events_archived", "events_restored", "erasure_begun", "events_erased", "keys_rewrapped", "wrapping_key_recorded",
	}
}
