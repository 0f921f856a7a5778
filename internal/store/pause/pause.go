package pause

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// ErrNotPaused is returned by [Resume] for a target that is not paused, or whose pause has expired.
var ErrNotPaused = errors.New("not paused")

// ErrUnknown is returned by [Set] for a target that does not exist. Its message names it.
var ErrUnknown = errors.New("there is nothing to pause")

// Target is a projection or a campaign of a consumer group or, if neither is named, the whole group.
type Target struct {
	Group      string
	Projection string
	CampaignID string
}

// Pause is a pause that has not expired.
type Pause struct {
	Target
	Reason    string
	By        string
	PausedAt  time.Time
	ExpiresAt time.Time // zero: until it is resumed
}

// Set pauses the target for d, or until [Resume] if d is zero. A paused target gets the new reason
// and end. by is required. The act is logged to tidemark.failure_log in tx. Set returns
// [ErrUnknown] for a target that does not exist.
//
// Work under way on a paused campaign fails at its fence. tx waits for a worker that is committing
// it and, until the group ends, for one that applies it savepointed, because that one's fence runs
// first. Set a lock_timeout to bound the wait. Pausing groups and projections does not wait.
func Set(ctx context.Context, tx pgx.Tx, t Target, by, reason string, d time.Duration) (err error) {
	defer rows.Explain(&err, "pause %s", t)
	scope, name, err := t.check(by)
	if err != nil {
		return err
	}
	if d < 0 {
		return fmt.Errorf("for %s: give a positive duration, or none to pause until it is resumed", d)
	}
	registered, err := rows.One(ctx, tx, pgx.RowTo[bool], "", queryRegistered, scope, t.Group, name)
	if err != nil {
		return err
	}
	if !registered {
		return fmt.Errorf("%w: no %s: look for its name in tidemark projection list, or campaign show", ErrUnknown, t)
	}
	var lasts *time.Duration
	if d > 0 {
		lasts = &d
	}
	if err := rows.Do(ctx, tx, "", querySet, scope, t.Group, name, reason, by, lasts); err != nil {
		return err
	}
	err = rows.Do(ctx, tx, "", queryLog, "paused", t.Group, t.Projection, t.CampaignID, by, reason)
	if err != nil || t.CampaignID == "" {
		return err
	}
	return lease.Pause(ctx, tx, t.Group, t.CampaignID, d)
}

// Resume ends the target's pause, logs by and reason to tidemark.failure_log, and wakes waiting
// workers. It returns [ErrNotPaused] if there is no pause to end.
func Resume(ctx context.Context, tx pgx.Tx, t Target, by, reason string) (err error) {
	defer rows.Explain(&err, "resume %s", t)
	scope, name, err := t.check(by)
	if err != nil {
		return err
	}
	live, err := rows.One(ctx, tx, pgx.RowTo[bool], "", queryResume, scope, t.Group, name)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && !live {
		return ErrNotPaused
	}
	if err != nil {
		return err
	}
	err = rows.Do(ctx, tx, "", queryLog, "resumed", t.Group, t.Projection, t.CampaignID, by, reason)
	if err == nil && t.CampaignID != "" {
		err = lease.Resume(ctx, tx, t.Group, t.CampaignID)
	}
	if err != nil {
		return err
	}
	return lease.Wake(ctx, tx)
}

// List returns up to limit pauses (0: all) of a consumer group, or of all groups if group is empty,
// after a target (nil: from the first). Projections come first, then groups, then campaigns, each
// in descending order of names. Every page costs the same.
func List(ctx context.Context, db event.Querier, group string, after *Target, limit int) ([]Pause, error) {
	scope, at, name := "z", "", "" // after all scopes
	if after != nil {
		scope, at, name = "group", after.Group, ""
		switch {
		case after.Projection != "":
			scope, name = "projection", after.Projection
		case after.CampaignID != "":
			scope, name = "campaign", after.CampaignID
		}
	}
	return rows.All(ctx, db, pgx.RowToStructByPos[Pause], "list pauses", queryList, group, scope, at, name, limit)
}

// String describes the target for a person.
func (t Target) String() string {
	switch {
	case t.Projection != "":
		return fmt.Sprintf("projection %q of consumer group %q", t.Projection, t.Group)
	case t.CampaignID != "":
		return fmt.Sprintf("campaign %q in consumer group %q", t.CampaignID, t.Group)
	}
	return fmt.Sprintf("consumer group %q", t.Group)
}

func (t Target) check(by string) (scope, name string, err error) {
	switch {
	case t.Group == "":
		return "", "", errors.New("name the consumer group")
	case by == "":
		return "", "", errors.New("name who does it")
	case t.Projection != "" && t.CampaignID != "":
		return "", "", fmt.Errorf("both a projection and campaign %q are named: pause one of them", t.CampaignID)
	case t.Projection != "":
		return "projection", t.Projection, nil
	case t.CampaignID != "":
		return "campaign", t.CampaignID, nil
	}
	return "group", "", nil
}

// Forget deletes a removed projection's pause, if it has one.
func Forget(ctx context.Context, tx pgx.Tx, t Target) error {
	return rows.Do(ctx, tx, fmt.Sprintf("forget the pause of %s", t),
		queryResume, "projection", t.Group, t.Projection)
}

// Rename gives a projection's pause, if it has one, to another name, which must have none.
func Rename(ctx context.Context, tx pgx.Tx, group, from, to string) error {
	return rows.Do(ctx, tx, "rename the pause of projection "+from, queryRename, group, from, to)
}

// Failed queues on batch the pause of a failed projection, until it is resumed. The projector calls
// it: worker is the process that failed, reason is the error.
func Failed(batch *pgx.Batch, group, projection, worker, reason string) {
	batch.Queue(queryFailed, group, projection, reason, worker)
}
