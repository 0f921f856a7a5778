package across

import (
	"context"
	"slices"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

const (
	dueEvery = time.Second // between two rounds of looks for due keys
	dueMost  = 1000        // keys of one look
)

// due is what a place knows of its keys that are due.
type due struct {
	failed []*failed.Standing          // each has an event to be tried
	probes []*probe                    // events of others, which are read
	behind map[string]*failed.Standing // each with the next position to look at
	probed chan struct{}               // one of them has been read
	cursor failed.DueKey               // where the round goes on
	looked time.Time                   // when the last round ended
}

// lookForDue reads the next due keys of the projection. Keys of other partitions are among them, so
// a round reads on until there are no more.
func (p *place) lookForDue(ctx context.Context) error {
	if len(p.held) == 0 {
		p.cursor = failed.DueKey{}
		return nil
	}
	if len(p.failed) > 0 || time.Since(p.looked) < dueEvery {
		return nil
	}
	found, err := failed.DueKeys(ctx, p.Cfg.Pool, p.Cfg.ConsumerGroup, p.k.Name, p.cursor, dueMost)
	if err != nil {
		return err
	}
	if p.cursor = (failed.DueKey{}); len(found) < dueMost {
		p.looked = time.Now()
	} else {
		p.cursor = *found[len(found)-1]
	}
	for _, one := range found {
		s := &one.Standing
		switch _, held := p.held[s.CampaignID]; {
		case !held || !p.mine(s.CampaignID) ||
			slices.ContainsFunc(p.probes, func(one *probe) bool { return one.CampaignID == s.CampaignID }):
		case s.Failed || s.CampaignID == projection.AllKeys:
			p.failed = append(p.failed, s)
		case p.behind[s.CampaignID] == nil:
			p.behind[s.CampaignID] = s
		}
	}
	return nil
}
