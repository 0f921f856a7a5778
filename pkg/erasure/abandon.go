package erasure

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/loops"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// Abandoned is a record with its campaign.
type abandoned struct {
	record
	CampaignID string
}

// Abandon ends an erasure that was interrupted and whose request is forgotten: by its number. What it has
// erased stays erased, in the read models and logs too. What it has not reached stays as it is, and sealing
// keys stay. The record and the certificate say that it was abandoned. As long as it has not ended, the
// original request still continues it. Errors: [ErrNothing] for an erasure that is not there or has ended, and
// those of [Erase].
func Abandon(ctx context.Context, db DB, erasure int64, by, reason string) (_ *Certificate, err error) {
	defer rows.Explain(&err, "abandon erasure %d", erasure)
	if by == "" || strings.TrimSpace(reason) == "" {
		return nil, fmt.Errorf("%w: by or reason is missing: the certificate has them", ErrConflict)
	}
	e := &run{db: db, act: failed.Act{By: by, Reason: reason}, left: map[string][]int64{}, done: &Certificate{
		By: by, Reason: reason, Abandoned: true,
	}}
	var found []abandoned
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) (err error) {
		found, err = rows.All(ctx, tx, pgx.RowToStructByPos[abandoned], "", queryAbandon, erasure, by, reason)
		return err
	})
	if err != nil {
		return nil, held(err, erasure)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: no erasure %d is unfinished: tidemark erase list shows them", ErrNothing, erasure)
	}
	e.take(&found[0].record)
	e.done.Campaign, e.done.Personal = found[0].CampaignID, e.personal != nil
	defer func() {
		if err = held(err, erasure); err != nil {
			e.release(ctx)
			err = e.partial(err)
		}
	}()
	if e.resets, _, err = e.readModels(ctx); err != nil {
		return nil, err
	}
	for _, p := range e.resets {
		e.done.Replayed = append(e.done.Replayed, p.Name)
	}
	campaigns, err := rows.All(ctx, db, pgx.RowTo[string], "", queryCampaigns, erasure)
	if err != nil {
		return nil, err
	}
	if err = e.forget(ctx, campaigns); err != nil {
		return nil, err
	}
	if err = e.finish(ctx, func(context.Context) error { return nil }); err != nil {
		return nil, err
	}
	return e.done, nil
}

// forget has campaigns replayed, and takes what failures tell of their events. A killed call may not have come
// to that. It erases no event.
func (e *run) forget(ctx context.Context, campaigns []string) error {
	last := time.Now()
	for len(campaigns) > 0 {
		var locked []string
		for _, campaign := range campaigns {
			_, err := e.erase(ctx, campaign, []int64{}, false)
			switch {
			case busy(err):
				locked, e.why = append(locked, campaign), err
			case err != nil:
				return err
			default:
				last = time.Now()
			}
		}
		if campaigns = locked; len(locked) == 0 {
			break
		}
		if time.Since(last) > defaultPatience {
			for _, campaign := range locked {
				e.left[campaign] = nil
			}
			return e.why
		}
		if !loops.Sleep(ctx, comeBackAfter) {
			return ctx.Err()
		}
	}
	_, err := rows.One(ctx, e.db, pgx.RowTo[int64], "", queryMark)
	return err
}
