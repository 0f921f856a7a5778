package redis

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// node is a server, or all of them.
type node interface{ Pipeline() redis.Pipeliner }

// send makes the calls in one round trip, and takes down which streams take nothing.
func (b *batch) send(ctx context.Context, calls []*call) error {
	for _, c := range calls {
		c.args = b.args(c)
	}
	err := b.within(ctx, func() error {
		cluster, ok := b.client.(*redis.ClusterClient)
		if !ok || b.cfg.MinReplicas == 0 {
			return b.ask(ctx, b.client, calls)
		}
		for i, c := range calls { // WAIT has no key that would lead it to the server that has the stream
			master, err := cluster.MasterForKey(ctx, c.stream)
			if err != nil {
				return err
			}
			if err := b.ask(ctx, master, calls[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && ctx.Err() != nil {
		return err // the calls may still be under way
	}
	for _, c := range calls {
		if c.cmd == nil {
			return fmt.Errorf("add to stream %q: not tried: %w", c.stream, err)
		}
		switch answer, refusal := c.cmd.Result(); {
		case answer == "OK":
		case refusal == nil: // the client does not always say of each command that the connection failed
			return fmt.Errorf("add to stream %q: Redis has not answered: %w", c.stream, err)
		case divides(b.cfg.Stream) && redis.HasErrorPrefix(refusal, "WRONGTYPE"):
			for _, i := range c.places {
				if !b.Behind(i) {
					b.Fail(i, fmt.Errorf("key %q is no stream: %w", c.stream, refusal), false)
				}
			}
		default:
			return publisher.Outage(fmt.Errorf("add to stream %q: %w", c.stream, refusal))
		}
		if err := b.replicated(c); err != nil {
			return err
		}
	}
	return nil
}

// ask makes calls over one connection, and has it wait for replicas.
func (b *batch) ask(ctx context.Context, of node, calls []*call) error {
	pipe := of.Pipeline()
	for _, c := range calls {
		c.cmd = b.add.EvalSha(ctx, pipe, keys(c.stream), c.args...)
	}
	b.wait(ctx, pipe, calls)
	_, err := pipe.Exec(ctx)
	if !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return err
	}
	// What has not run does so now, with the script's text. A campaign is in one call, so that nothing has
	// overtaken it.
	pipe = of.Pipeline()
	for _, c := range calls {
		if redis.HasErrorPrefix(c.cmd.Err(), "NOSCRIPT") {
			c.cmd = b.add.Eval(ctx, pipe, keys(c.stream), c.args...)
		}
	}
	b.wait(ctx, pipe, calls)
	_, err = pipe.Exec(ctx)
	return err
}

// wait ends a pipeline with the wait for replicas: they take what Redis writes in one order, so that
// who has its last write has all before it.
func (b *batch) wait(ctx context.Context, pipe redis.Pipeliner, calls []*call) {
	if b.cfg.MinReplicas == 0 {
		return
	}
	reached := pipe.Do(ctx, "wait", b.cfg.MinReplicas, b.cfg.ReplicaTimeout.Milliseconds())
	for _, c := range calls {
		c.reached = reached
	}
}

// replicated tells whether enough replicas have what the call has added.
func (b *batch) replicated(c *call) error {
	if b.cfg.MinReplicas == 0 {
		return nil
	}
	n, err := c.reached.Int64()
	switch {
	case err != nil:
		return fmt.Errorf("wait for replicas of stream %q: %w", c.stream, err)
	case n < int64(b.cfg.MinReplicas):
		return publisher.Outage(fmt.Errorf("stream %q: %d of %d replicas (min_replicas) have acknowledged what was added "+
			"after %s (replica_timeout); it is sent again", c.stream, n, b.cfg.MinReplicas, b.cfg.ReplicaTimeout))
	}
	return nil
}
