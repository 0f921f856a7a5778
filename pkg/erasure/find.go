package erasure

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// counts are the events of a campaign in the journal, those in the archive, and those in the journal that
// are not erased.
type counts struct{ All, Archived, Left int64 }

func (e *run) countCampaign(ctx context.Context, db event.Querier, scheduled int64) (n counts, err error) {
	n, err = rows.One(ctx, db, pgx.RowToStructByPos[counts], "", queryCount, e.Campaign, e.personal.encoded())
	if err == nil && n.All == 0 && scheduled == 0 {
		err = fmt.Errorf("%w: campaign %q has no events", ErrNothing, e.Campaign)
	}
	return n, err
}

// mostTags bounds the tags of [Found].
const mostTags = 1000

// tags adds tags of events of a campaign: those with seqs, or all if that is nil.
func (f *Found) tags(ctx context.Context, db event.Querier, e *run, campaign string, seqs []int64) error {
	if e.personal != nil || len(f.Tags) >= mostTags {
		return nil
	}
	tags, err := rows.All(ctx, db, pgx.RowTo[string], "read tags of events", queryTags, campaign, seqs, e.Subjects,
		mostTags)
	f.Tags = append(f.Tags, tags...)
	slices.Sort(f.Tags)
	f.Tags = slices.Compact(f.Tags)
	f.Tags = f.Tags[:min(len(f.Tags), mostTags)]
	return err
}

// begin brings the objects back that have lines of a campaign, whole because objects never change, and
// puts the erasure on record.
func (e *run) begin(ctx context.Context, campaign string) error {
	for {
		objects, err := rows.All(ctx, e.db, pgx.RowTo[string], "", queryInUse, campaign)
		switch {
		case err != nil:
			return err
		case len(objects) == 0 && e.done.Erasure > 0:
			return nil
		case len(objects) == 0:
			err = e.record(ctx, true) // then look again: the campaign may have been archived meanwhile
		case e.Archive == nil:
			err = refuse(objects[0])
		default:
			err = e.restore(ctx, objects)
		}
		if err != nil {
			return err
		}
	}
}

func (e *run) restore(ctx context.Context, objects []string) error {
	done, err := archive.Restore(ctx, e.db, e.Archive, archive.RestoreRequest{Objects: objects})
	if err == nil && done.LeftOut > 0 {
		err = fmt.Errorf("%w: campaign %q stays archived, as %s", errBusy, done.Left[0].CampaignID, done.Left[0].Reason)
	}
	return err
}

func refuse(object string) error {
	return fmt.Errorf("%w in %s: set TIDEMARK_ARCHIVE_URL, or Request.Archive, to bring it back", event.ErrArchived,
		object)
}

// subjectKey is a sealing key, with the subject whose it is.
type subjectKey struct{ ID, Subject string }

// unknown returns the subjects that nothing was found of.
func (e *run) unknown() (unknown []string) {
	for _, subject := range e.Subjects {
		if !e.seen[subject] {
			unknown = append(unknown, subject)
		}
	}
	return unknown
}

// find reads the ids of the subjects' keys, and visits their events, campaign by campaign of a window of
// positions.
func (e *run) find(
	ctx context.Context, db event.Querier, visit func(ctx context.Context, campaign string, seqs []int64) error,
) error {
	last, err := rows.One(ctx, db, pgx.RowTo[int64], "", queryLast)
	if err != nil {
		return err
	}
	if e.keys, err = rows.All(ctx, db, pgx.RowToStructByPos[subjectKey], "", queryKeys, e.Subjects); err != nil {
		return err
	}
	if e.keyless, err = rows.All(ctx, db, pgx.RowTo[string], "", queryKeyless, e.Subjects); err != nil {
		return err
	}
	var keys, subjects []string
	for _, k := range e.keys {
		e.seen[k.Subject] = true
		keys, subjects = append(keys, k.ID), append(subjects, k.Subject)
	}
	fields := e.fields.encoded()
	step := int64(window)
	found := map[string][]int64{}
	read := func(sql string, args ...any) error {
		var campaign, subject string
		var seq int64
		var left bool
		return uncompiled(ctx, db, func(db event.Querier) error {
			return rows.Each(ctx, db, []any{&campaign, &seq, &subject, &left}, func() {
				e.seen[subject] = true
				if left {
					found[campaign] = append(found[campaign], seq)
				}
			}, "find events of the subjects", sql, append([]any{e.Subjects, e.personal.encoded()}, args...)...)
		})
	}
	visitAll := func() error {
		for _, campaign := range slices.Sorted(maps.Keys(found)) {
			slices.Sort(found[campaign])
			if err := visit(ctx, campaign, slices.Compact(found[campaign])); err != nil {
				return err
			}
		}
		clear(found)
		return e.hold(ctx)
	}
	if err := read(queryErasedOf); err != nil {
		return err
	}
	if len(e.fields) == 0 {
		step = math.MaxInt64 / 2 // archived events have stubs if they have tags
	} else {
		err = e.search(ctx, db, slices.Sorted(maps.Keys(e.fields)), func(object string, lines []byte) error {
			err := e.hold(ctx)
			if err == nil {
				err = read(queryLines, fields, keys, subjects, string(lines), object)
			}
			return err
		})
	}
	for after := int64(0); err == nil; after += step {
		if err = visitAll(); err != nil || after >= last {
			return err
		}
		if err = read(queryTagged, after, after+step); err == nil && len(e.fields) > 0 {
			err = read(queryNamed, fields, keys, subjects, after, after+step)
		}
	}
	return err
}

// uncompiled reads in a transaction with JIT off: a function in a statement makes it look so costly that
// Postgres would compile it each time, which takes longer than the statement.
func uncompiled(ctx context.Context, db event.Querier, read func(event.Querier) error) error {
	begins, ok := db.(DB)
	if !ok {
		return read(db)
	}
	return pgx.BeginFunc(ctx, begins, func(tx pgx.Tx) error {
		if err := rows.Do(ctx, tx, "", queryNoJIT); err != nil {
			return err
		}
		return read(tx)
	})
}

// search visits the objects of the archive that may have events of types.
func (e *run) search(ctx context.Context, db event.Querier, types []string, visit func(string, []byte) error) error {
	if e.Archive != nil {
		return archive.Search(ctx, db, e.Archive, types, visit)
	}
	object, err := rows.One(ctx, db, pgx.RowTo[string], "", queryArchived, types)
	if err == nil && object != "" {
		err = refuse(object)
	}
	return err
}
