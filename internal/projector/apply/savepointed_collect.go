package apply

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/projector/kind"
	"github.com/tidemark-go/tidemark/internal/projector/pipeline"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

const (
	// mostParts is about how many parts a transaction has: projections that failed of late share
	// seven eighths, the others the rest. Beyond 64 subtransactions that write, the server no
	// longer keeps all in memory, and everyone who meets the transaction's rows must look them up.
	mostParts = 52

	// partStatements is how many statements make a part, at least, where there are as many: a
	// savepoint costs about as much as two of them.
	partStatements = 16
)

// collection is what a projection has queued, before anything is sent. A projection that runs on
// after being abandoned shares it with no other.
type collection struct {
	*pipeline.Pipeline
	k      *registry.Projection
	tasks  []*task
	limit  time.Duration   // of the projection
	events [][]event.Event // by task
	failed [][]failedEvent // by task
}

// collect has a projection queue its statements for the events of tasks. Nothing is sent yet, so an
// event that fails affects only its own campaign: it ends the task, or is skipped. The error is
// [kind.ErrIntricate], or one about the transaction.
func (t *Transaction) collect(ctx context.Context, k *registry.Projection, tasks []*task) (*collection, error) {
	each := kind.Eventwise(k.Projection)
	if each == nil || !t.Streams || t.apart || k.Intricate.Load() || t.looksAhead() {
		return nil, pipeline.ErrIntricate
	}
	c := &collection{Pipeline: pipeline.NewPipeline(t.Conn), k: k, tasks: tasks, failed: make([][]failedEvent, len(tasks))}
	c.Disconnect, c.Collects = t.Disconnect, true
	g := kind.NewGroup(kind.Events{}, k.Name, k.Comment, c.Pipeline)
	n := 0
	for _, one := range tasks {
		c.events = append(c.events, one.events)
		n += len(one.events)
	}
	g.Events = t.Events
	if n != len(t.Events) {
		g.Events = slices.Concat(c.events...)
	}
	c.Origins, c.Batch.QueuedQueries = make([]pipeline.Origin, 0, n+1), make([]*pgx.QueuedQuery, 0, n)
	c.limit = k.Timeout(g.Events)
	if len(g.Events) == 0 {
		return c, nil
	}
	err := t.Applier.Supervise(ctx, k, g, func(ctx context.Context) error { return c.run(ctx, each, g) })
	t.Abandoned = t.Abandoned || c.Abandoned
	if err != nil {
		if t.over(ctx, err) {
			return nil, t.Blame(err)
		}
		return nil, pipeline.ErrIntricate
	}
	for i, one := range tasks {
		for _, f := range c.failed[i] {
			one.dropFailed(f.event.Seq, f.cause)
		}
	}
	return c, nil
}

func (c *collection) run(ctx context.Context, each kind.EachEvent, g *projection.Group) error {
	texts := map[string]bool{}
	last := "" // the text looked up last
	for i, events := range c.events {
		for _, e := range events {
			from := c.Batch.Len()
			err := c.apply(ctx, each, g, e)
			switch {
			case kind.GroupEnded(g):
				return projection.ErrAbandoned
			case c.Refused || !c.plain(from, &e, texts, &last):
				c.k.Intricate.Store(true)
				return pipeline.ErrIntricate
			case err == nil:
				continue
			case ctx.Err() != nil || failure.IsRollback(err): // tried again, with savepoints
				return err
			}
			c.Batch.QueuedQueries, c.Origins = c.Batch.QueuedQueries[:from], c.Origins[:from]
			c.failed[i] = append(c.failed[i], failedEvent{e, err})
			if !c.k.Skips(e.Type, err) {
				break
			}
		}
	}
	return nil
}

// apply calls the projection for one event. A panic becomes an error.
func (c *collection) apply(ctx context.Context, each kind.EachEvent, g *projection.Group, e event.Event) (err error) {
	defer failure.Recover(&err)
	g.At(e)
	return each(ctx, g, e)
}

// plain reports whether all statements queued for e belong to e and have no reader, and their texts remain few.
func (c *collection) plain(from int, e *event.Event, texts map[string]bool, last *string) bool {
	for i, q := range c.Batch.QueuedQueries[from:] {
		if o := c.Origins[from+i]; q.Fn != nil || o.Seq != e.Seq || o.CampaignID != e.CampaignID {
			return false
		}
		if q.SQL != *last { // fast for the same constant
			texts[q.SQL], *last = true, q.SQL
		}
	}
	return len(texts) <= pipeline.StreamStatements
}

// cutIntoParts cuts what projections have queued into parts of whole tasks, smaller for those that
// failed of late. If none did and calm is set, each projection stays one part.
func cutIntoParts(all []*collection, calm bool) []*part {
	failing := slice.Count(all, func(c *collection) bool { return c.k.Savepoints.Load() > 0 })
	var parts []*part
	for _, c := range all {
		whole := &part{
			k: c.k, timeout: c.limit, tasks: c.tasks,
			Savepoint: pipeline.Savepoint{Queries: c.Batch.QueuedQueries}, origins: c.Origins[:c.Batch.Len()],
		}
		most := mostParts / len(all)
		switch {
		case c.k.Slow.Load() > 0:
			most = 1
		case c.k.Savepoints.Load() > 0:
			most = mostParts * 7 / 8 / failing
		case failing > 0:
			most = mostParts / 8 / (len(all) - failing)
		case calm:
			whole.finer, most = most, 1
		}
		parts = append(parts, whole.cut(most)...)
	}
	return parts
}

// cut cuts a part into about most parts, at most a quarter more. A campaign's statements stay together,
// or an event's across campaigns.
func (p *part) cut(most int) []*part {
	if len(p.Queries) == 0 {
		return nil
	}
	if most <= 1 { // there may be more projections than parts
		return []*part{p}
	}
	least := max(partStatements, len(p.Queries)/most*4/5)
	var parts []*part
	for from, i := 0, 0; i < len(p.Queries); {
		first := p.origins[i]
		for i < len(p.Queries) && p.origins[i].CampaignID == first.CampaignID &&
			(!p.inOrder || p.origins[i].Seq == first.Seq) {
			i++
		}
		if i-from >= least && len(p.Queries)-i >= partStatements || i == len(p.Queries) {
			parts = append(parts, p.piece(from, i))
			from = i
		}
	}
	return parts
}

// without returns what is left of a part that has failed: before was rolled back with the culprit,
// and rest came after it and was not tried. A campaign's statements stay together: if its campaign
// goes on after the culprit, all that is left is rest.
func (p *part) without(cause error) (before *part, rest []*part) {
	culprit := p.origins[p.Failed]
	skipped := taskOf(p.tasks, culprit.CampaignID).dropFailed(culprit.Seq, cause)
	from, to := p.Failed, p.Failed+1
	for from > 0 && p.origins[from-1] == culprit {
		from--
	}
	for to < len(p.origins) && (p.origins[to] == culprit || !skipped && p.origins[to].CampaignID == culprit.CampaignID) {
		to++
	}
	before, after := p.piece(0, from), p.piece(to, len(p.Queries))
	if skipped {
		after.Queries, after.origins = slices.Concat(before.Queries, after.Queries),
			slices.Concat(before.origins, after.origins)
		before = p.piece(0, 0)
	}
	return before, after.cut(max(1, p.finer))
}

// culprit returns the event whose statement has failed.
func (p *part) culprit() event.Event {
	at := p.origins[p.Failed]
	events := taskOf(p.tasks, at.CampaignID).events
	return events[slices.IndexFunc(events, func(e event.Event) bool { return e.Seq == at.Seq })]
}

// eventsOf returns the campaigns and seqs of the events in parts.
func eventsOf(parts []*part) (events []event.Event) {
	for _, one := range parts {
		for _, at := range one.origins {
			events = append(events, event.Event{CampaignID: at.CampaignID, Seq: at.Seq})
		}
	}
	return events
}

// piece returns a part's statements from one index up to another.
func (p *part) piece(from, to int) *part {
	return &part{
		k: p.k, timeout: p.timeout, tasks: p.tasks, inOrder: p.inOrder,
		Savepoint: pipeline.Savepoint{Queries: p.Queries[from:to:to]}, origins: p.origins[from:to:to],
	}
}

// part is what one savepoint holds: statements of one projection. If it fails, the other parts stay.
type part struct {
	pipeline.Savepoint
	k       *registry.Projection // nil: the statements belong to no projection
	timeout time.Duration        // of k
	tasks   []*task
	origins []pipeline.Origin
	finer   int  // parts to cut the rest into if it fails; 0: none
	inOrder bool // campaigns' statements are mixed, and stay in order

	// It runs a second time, because the server has rolled it back, or because it timed out on a lock
	// without a known holder. Late in a large group only 20 ms are left to wait, and a busy server may
	// take longer to extend a table.
	again bool
}
