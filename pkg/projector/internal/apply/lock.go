package apply

import (
	"context"
	"time"

	"github.com/tidemark-go/tidemark/pkg/projector/internal/pipeline"
	"github.com/tidemark-go/tidemark/pkg/projector/internal/registry"
)

// lockLook is after how long a statement that has not returned is asked what it waits for, and how often.
const lockLook = 100 * time.Millisecond

// queuePatience queues, ahead of a savepoint, how long what follows may wait for locks.
func (t *Transaction) queuePatience() {
	if t.trying { // it has a patience of its own
		return
	}
	if !t.patient {
		t.patient = true
		t.Queue(pipeline.QueryPatienceBegins)
	}
	t.Queue(pipeline.QueryPatience)
}

// watchLocks looks who keeps the transaction's connection from going on, until stop is called. It needs another connection of the pool; where there is none to be had, nobody knows.
func (t *Transaction) watchLocks(ctx context.Context) (stop func()) {
	pid := t.Conn.PgConn().PID()
	watching, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	look := func() {
		defer close(done)
		for found := ""; found == "" && watching.Err() == nil; registry.Pause(watching, lockLook) {
			conn, err := t.Applier.Cfg.Pool.Acquire(watching)
			if err != nil {
				return
			}
			bounded, end := context.WithTimeout(context.WithoutCancel(ctx), registry.ReleaseTimeout) // it takes a millisecond: cut short, it would cost a connection
			err = conn.QueryRow(bounded, registry.QueryBlockers, int32(pid)).Scan(&found)
			end()
			conn.Release()
			if err != nil {
				return
			}
			if found != "" {
				t.blockers = found
			}
		}
	}
	timer := time.AfterFunc(lockLook, look)
	return func() {
		cancel()
		if !timer.Stop() {
			<-done
		}
	}
}
