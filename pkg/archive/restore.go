package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// RestoreRequest says what to restore: campaigns, all of some objects, or everything.
type RestoreRequest struct {
	Campaigns []string
	Objects   []string
	All       bool

	// Keep is for campaigns that appends have asked for: the restore is on record as theirs, and they are
	// not archived again for so long. 0: an operator restores.
	Keep time.Duration

	Rate     int          // events a second; 0: as fast as possible
	Progress func(Report) // after each object; may be nil
}

// Restore brings archived events back, as they were, an object or a part of it in each transaction. It
// can be interrupted and repeated. Errors: [ErrInvalid]; [ErrObject], which leaves the campaigns of this
// object archived and restores those of the others; those of store and database.
func Restore(ctx context.Context, db DB, store Store, r RestoreRequest) (_ Report, err error) {
	defer rows.Explain(&err, "restore")
	var done tally
	given := 0
	for _, is := range []bool{len(r.Campaigns) > 0, len(r.Objects) > 0, r.All} {
		if is {
			given++
		}
	}
	if given != 1 {
		return done.Report, fmt.Errorf("%w: name campaigns or objects to restore, or all", ErrInvalid)
	}
	wanted, err := r.objects(ctx, db, &done)
	if err != nil {
		return done.Report, err
	}
	var unusable []error
	err = atOnce(ctx, r.Rate, func(ctx context.Context, do func(int64, func() error) error) error {
		for _, m := range wanted {
			o, err := load(ctx, store, m.object)
			if errors.Is(err, ErrObject) {
				unusable = append(unusable, err)
				for _, id := range m.ids {
					done.leave(id, err.Error())
				}
				continue
			}
			if err != nil {
				return err
			}
			ids := m.ids
			if len(r.Campaigns) == 0 {
				ids = o.campaigns
			}
			for part := range slices.Chunk(ids, objectCampaigns) {
				if err := do(o.events(part), func() error { return r.restore(ctx, db, o, part, &done) }); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return done.Report, errors.Join(append(unusable, err)...)
}

// wanted is an object, and the campaigns to restore of it; none: all.
type wanted struct {
	object event.Stub
	ids    []string
}

func (r RestoreRequest) objects(ctx context.Context, db DB, done *tally) (all []wanted, err error) {
	if len(r.Campaigns) == 0 {
		objects, err := rows.All(ctx, db, pgx.RowToStructByPos[event.Stub], "list objects", queryObjects, r.Objects, nil)
		for _, o := range objects {
			all = append(all, wanted{object: o})
		}
		for _, name := range r.Objects {
			if err == nil && !slices.ContainsFunc(all, func(w wanted) bool { return w.object.Object == name }) {
				err = fmt.Errorf("%w: no archived campaign is in object %q", ErrInvalid, name)
			}
		}
		return all, err
	}
	marks, err := rows.All(ctx, db, pgx.RowToStructByPos[event.Stub], "find archived campaigns", queryMarks, r.Campaigns)
	slices.SortFunc(marks, func(a, b event.Stub) int {
		return cmp.Or(strings.Compare(a.Object, b.Object), strings.Compare(a.CampaignID, b.CampaignID))
	})
	for _, m := range slices.Compact(marks) {
		if m.Object == "" {
			done.leave(m.CampaignID, "it is not archived")
			continue
		}
		if n := len(all); n == 0 || all[n-1].object.Object != m.Object {
			all = append(all, wanted{object: m})
		}
		all[len(all)-1].ids = append(all[len(all)-1].ids, m.CampaignID)
	}
	return all, err
}

// restore brings back campaigns of an object. Unless they were named, those restored before are passed over.
func (r RestoreRequest) restore(ctx context.Context, db DB, o *object, ids []string, done *tally) error {
	marks, err := rows.All(ctx, db, pgx.RowToStructByPos[event.Stub], "", queryMarks, ids)
	if err != nil {
		return err
	}
	there, texts := []string{}, []string{}
	for _, m := range marks {
		switch lines, ok := o.lines[m.CampaignID]; {
		case m.Object == o.name && ok:
			there, texts = append(there, m.CampaignID), append(texts, string(lines))
		case m.Object == o.name:
			done.leave(m.CampaignID, fmt.Sprintf("%s does not have it", o.name))
		case len(r.Campaigns) > 0:
			done.leave(m.CampaignID, "it is not archived")
		}
	}
	if len(there) == 0 {
		return nil
	}
	left := map[string]string{}
	if err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		return collect(ctx, tx, left, queryRestore, there, texts, r.Keep)
	}); err != nil {
		return err
	}
	done.moved(o, there, left, r.Progress)
	return nil
}

// Ask asks workers to bring a campaign back, after an append to it has returned [event.ErrArchived]. It
// reports whether the campaign is archived still: if not, append again. You may call it any number of
// times, in a transaction that commits. Errors: no worker brings campaigns back, or 1,000 are asked for
// already (SQLSTATE TM015); those of the database. Other drivers call tidemark.ask_restore.
func Ask(ctx context.Context, db event.Querier, campaignID string) (archived bool, err error) {
	return rows.One(ctx, db, pgx.RowTo[bool], "ask for an archived campaign", queryAsk, campaignID)
}
