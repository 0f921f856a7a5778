// Package apply brings campaigns forward: a group of them in one transaction, with their events, the effects of
// projections, the fence, the checkpoints and what failed. [Applier] chooses the strategy: batched, savepointed,
// isolated, or marked. The leases under which that happens are the [Holder]'s.
package apply
