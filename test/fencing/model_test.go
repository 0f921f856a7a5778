package fencing_test

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// operation is a call on the lease of one campaign.
type operation struct {
	kind       string // claim, advance, renew, release
	campaign   string
	owner      string
	generation int64
	from, to   int64
	release    bool
}

// answer is what the call returned.
type answer struct {
	ok         bool
	generation int64
	checkpoint int64
}

// register is the state of a lease.
type register struct {
	owner      string
	generation int64
	checkpoint int64
	held       bool
}

func (r register) owned(op operation) bool {
	return r.generation > 0 && r.generation == op.generation && r.owner == op.owner
}

// model is the documented behaviour of a lease. If leases expire, the holder may lose it at any
// time. That changes nothing before the next claim.
func model(expires bool) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return register{} },
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byCampaign := map[string][]porcupine.Operation{}
			for _, op := range history {
				campaign := op.Input.(operation).campaign
				byCampaign[campaign] = append(byCampaign[campaign], op)
			}
			parts := make([][]porcupine.Operation, 0, len(byCampaign))
			for _, part := range byCampaign {
				parts = append(parts, part)
			}
			return parts
		},
		Step: func(state, input, output any) (bool, any) {
			r, op, out := state.(register), input.(operation), output.(answer)
			switch op.kind {
			case "claim": // recorded only if it got the lease
				legal := out.generation == r.generation+1 && out.checkpoint == r.checkpoint && (expires || !r.held)
				return legal, register{owner: op.owner, generation: out.generation, checkpoint: out.checkpoint, held: true}
			case "advance":
				if out.ok != (r.owned(op) && r.checkpoint == op.from) {
					return false, r
				}
				if out.ok {
					r.checkpoint, r.held = op.to, !op.release
				}
				return true, r
			case "renew":
				return out.ok == (r.owned(op) && r.held), r
			case "release":
				if r.owned(op) {
					r.held = false
				}
				return true, r
			}
			panic("unknown operation " + op.kind)
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
	}
}
