package failed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lookback"
)

// Errors of acts on one failed campaign.
var (
	// ErrNotFound: the campaign is not behind; it may have caught up meanwhile. Returned by [Show],
	// [Requeue], [RequeueSeq] and [Resolve].
	ErrNotFound = errors.New("no such failed campaign")
	// ErrConflict: the campaign has not failed, or stands at another event. Returned by [Requeue] and [Resolve].
	ErrConflict = errors.New("failed campaign has changed")
	// ErrReplaced: a rebuild has replaced the tables. Returned by [Requeue].
	ErrReplaced = errors.New("a rebuild has replaced these tables, and nothing reads them: the code that failed is that " +
		"of their version, so a retry fails again")
)

// Replaced reports whether a projection stands for tables that a rebuild has replaced. What fails there
// is left out of sums and lists, unless the projection is named.
func Replaced(projection string) bool { return strings.HasSuffix(projection, "~previous") }

// Status is the status of a failed campaign.
type Status string

// The statuses of a failed campaign.
const (
	Failed     Status = "failed"      // the projection could not apply the event; a retry is due at NextAttemptAt
	Dead       Status = "dead"        // as Failed, but only an operator can retry it
	CatchingUp Status = "catching_up" // the projection is catching up with the campaign
)

// Statuses returns all statuses.
func Statuses() []Status { return []Status{Failed, Dead, CatchingUp} }

// Key names a failed campaign: a projection and a campaign.
type Key struct {
	Projection string
	CampaignID string
}

func (k Key) String() string {
	return fmt.Sprintf("projection %s of campaign %q", k.Projection, k.CampaignID)
}

func (k Key) validate() error {
	return errors.Join(texts(k.Projection, k.CampaignID)...)
}

// Campaign is a projection that is behind its consumer group in a campaign: a row of
// tidemark.failed. The fields from EventID on, except Reset, describe the failure at event
// NextSeq. They are zero if that event has not failed.
type Campaign struct {
	Key
	Group         string     // consumer group
	Version       int        // of the projection that failed; 0: unknown
	NextSeq       int64      // the next event to apply
	Status        Status     //
	Attempts      int        // failures at that event since it was last requeued
	NextAttemptAt time.Time  // when a worker retries; zero: when an operator asks for it
	EventID       *uuid.UUID // nil: unknown
	EventType     string     //
	Class         string     // infrastructure, transient, permanent or lock
	Code          string     // a SQLSTATE, panic, deadline, crash, decode or error
	Message       string     // at most 4 KiB
	Fingerprint   string     // equal for messages that differ only in numbers and names
	FirstFailedAt *time.Time // nil: never
	LastFailedAt  *time.Time // nil: never
	Worker        string     // that failed last
	Reset         bool       // its rows are deleted before the next event is applied
}

// Place returns the campaign's place in the order of [List].
func (p Campaign) Place() Place {
	return Place{NextAttemptAt: p.NextAttemptAt, NextSeq: p.NextSeq, Key: p.Key}
}

// Place is a place in the order of [List]: NextAttemptAt (zero last), NextSeq, campaign, projection.
type Place struct {
	NextAttemptAt time.Time
	NextSeq       int64
	Key
}

func (p Place) place() Place { return p }

// columns returns campaigns, projections and seqs as arrays for statements.
func columns[Of interface{ place() Place }](all []Of) (campaigns, projections []string, seqs []int64) {
	campaigns, projections = make([]string, len(all)), make([]string, len(all))
	seqs = make([]int64, len(all))
	for i, one := range all {
		p := one.place()
		campaigns[i], projections[i], seqs[i] = p.CampaignID, p.Projection, p.NextSeq
	}
	return campaigns, projections, seqs
}

// Detail is everything known of a failed campaign.
type Detail struct {
	Campaign
	Stack   string       // of its last panic; at most 16 KiB
	Event   *event.Event // event NextSeq, or at position NextSeq, as it was appended; nil if there is none yet
	History []Record     // of the failed campaign, newest first, at most 100

	Resolutions []lookback.Resolution // events left out of the projection in the campaign, by seq, at most 100

	across bool
}

// Across reports whether the row is for a key of a projection across campaigns.
func (d *Detail) Across() bool { return d.across }

// Show returns everything known of a failed campaign, or [ErrNotFound].
func Show(ctx context.Context, db event.Querier, key Key) (_ *Detail, err error) {
	defer rows.Explain(&err, "show %s", key)
	found, err := get(ctx, db, key)
	if err != nil {
		return nil, err
	}
	d := &Detail{Campaign: found}
	d.Stack, err = rows.One(ctx, db, pgx.RowTo[string], "", queryStack, key.CampaignID, key.Projection)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) { // it may have caught up since get
		return nil, err
	}
	if d.across, err = rows.One(ctx, db, pgx.RowTo[bool], "", queryAcross, key.Projection); err != nil {
		return nil, err
	}
	var at event.Event
	if d.across {
		at, err = feed.At(ctx, db, found.NextSeq)
	} else {
		at, err = journal.Get(ctx, db, key.CampaignID, found.NextSeq)
	}
	switch {
	case err == nil:
		d.Event = &at
	case !errors.Is(err, event.ErrNotFound) && !errors.Is(err, event.ErrArchived):
		return nil, err
	}
	if d.Resolutions, err = Resolutions(ctx, db, ResolutionFilter{
		Projection: key.Projection,
		CampaignID: key.CampaignID,
	}); err != nil {
		return nil, err
	}
	d.History, err = History(ctx, db, LogFilter{
		Group: found.Group, Projection: key.Projection,
		CampaignID: key.CampaignID,
	})
	return d, err
}

// get returns one failed campaign, or ErrNotFound.
func get(ctx context.Context, db event.Querier, key Key) (Campaign, error) {
	if err := key.validate(); err != nil {
		return Campaign{}, err
	}
	found, err := rows.One(ctx, db, pgx.RowToStructByPos[Campaign], "", queryCampaign, key.CampaignID, key.Projection)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	return found, err
}
