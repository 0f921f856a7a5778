// Package apply moves campaigns forward. One transaction holds a group of them: their events, the
// effects of projections, the fence, the checkpoints and the failures. [Applier] chooses the
// strategy: batched, savepointed, isolated or marked. [Holder] keeps the leases.
package apply
