package apply

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/store/pages"
)

// SlowReadError is the error of a read of the journal that a statement_timeout has ended. An event of half a
// gigabyte may need more time. It is a failure of the infrastructure: the event is not at fault.
type SlowReadError struct {
	CampaignID string // of the first event that was to be read
	After      int64  // seq before that event
	Campaigns  int    // that were read at once
	Limit      time.Duration
	Err        error
}

func (e *SlowReadError) Error() string {
	what := ""
	if e.Campaigns > 1 {
		what = fmt.Sprintf(", and of %d other campaigns,", e.Campaigns-1)
	}
	return fmt.Sprintf("the read of events after seq %d of campaign %q%s was ended by its limit of %v%s: %v", e.After,
		e.CampaignID, what, e.Limit, pages.Remedy(e.Limit), e.Err)
}

func (e *SlowReadError) Unwrap() error { return e.Err }

// flushRead runs what is queued, a read of the journal last.
func (t *Transaction) flushRead(ctx context.Context) error {
	start := time.Now()
	err := t.Flush(ctx)
	if err == nil {
		return nil
	}
	t.Applier.small.Store(false) // the read may have been too large for its time
	if limit := cmp.Or(t.readLimit, t.limit); failure.TimedOut(err, limit, start) && len(t.Units) > 0 {
		first := t.Units[0]
		return &SlowReadError{first.Lease.CampaignID, first.Place, len(t.Units), limit, err}
	}
	return t.Blame(t.Applier.SuspectUnreadable(err))
}

// Slow turns the error of a read, sent after start, of events after one of a campaign into a [*SlowReadError] if the
// limit in force has ended it.
func (t *Transaction) Slow(err error, start time.Time, campaignID string, after int64) error {
	if limit := min(t.InForce, t.limit); failure.TimedOut(err, limit, start) {
		return &SlowReadError{campaignID, after, 1, limit, err}
	}
	return err
}

// raiseLimit gives the statement that is queued next the time limit of a repeated read, even if that of the role is
// shorter. The read needs the time: otherwise it would be ended for ever.
func (t *Transaction) raiseLimit(ctx context.Context) error {
	if t.readLimit == 0 {
		return nil
	}
	if err := t.Flush(ctx); err != nil { // the settings
		return t.Blame(err)
	}
	t.limitTo(t.readLimit)
	return nil
}

// lowerLimit restores the limit after a repeated read.
func (t *Transaction) lowerLimit() {
	if t.readLimit > 0 {
		t.limitTo(min(t.InForce, t.limit))
	}
}

func (t *Transaction) limitTo(limit time.Duration) {
	t.Queue(QueryStatementTimeout, strconv.FormatInt(limit.Milliseconds(), 10))
}

// solo is how the units of one campaign are applied apart from others.
type solo struct {
	events   int                       // of a group, at most
	limit    time.Duration             // of the read; 0: that of other statements
	verdicts map[failure.Verdict]error // events that are known to fail; it gains those that are late
	marked   bool                      // a mark names each event before it is tried
}

// patient prepares to repeat a read that its limit has ended, for one event and with more time. It reports whether
// it may be repeated.
func (a *Applier) patient(ctx context.Context, how *solo, slow *SlowReadError) bool {
	if slow.Limit >= pages.LongestRead {
		return false
	}
	how.events, how.limit = 1, pages.Longer(slow.Limit)
	a.Cfg.Logger.WarnContext(ctx, "a read of the journal took too long, the next is of one event, with more time",
		"campaign", slow.CampaignID, "after", slow.After, "timeout", slow.Limit)
	return true
}
