package erasure

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// counts are the events of a campaign in the journal, those in the archive, and those in the journal that
// are not erased.
type counts struct{ All, Archived, Left int64 }

func (e *run) countCampaign(ctx context.Context, db journal.Querier) (n counts, err error) {
	n, err = rows.One(ctx, db, pgx.RowToStructByPos[counts], "", queryCount, e.Campaign, e.personal)
	if err == nil && n.All == 0 {
		err = fmt.Errorf("%w: campaign %q has no events", ErrNothing, e.Campaign)
	}
	return n, err
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
			err = e.record(ctx) // then look again: the campaign may have been archived meanwhile
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
		err = fmt.Errorf("campaign %q stays archived, as %s: erase again", done.Left[0].CampaignID, done.Left[0].Reason)
	}
	return err
}

func refuse(object string) error {
	return fmt.Errorf("%w in %s: set TIDEMARK_ARCHIVE_URL, or Request.Archive, to bring it back", journal.ErrArchived,
		object)
}

// find reads the ids of the subjects' keys, and visits their events, campaign by campaign of a window of
// positions.
func (e *run) find(ctx context.Context, db journal.Querier, visit func(campaign string, seqs []int64) error) error {
	last, err := rows.One(ctx, db, pgx.RowTo[int64], "", queryLast)
	if err != nil {
		return err
	}
	if e.keys, err = rows.All(ctx, db, pgx.RowTo[string], "", queryKeys, e.Subjects); err != nil {
		return err
	}
	if e.keyless, err = rows.All(ctx, db, pgx.RowTo[string], "", queryKeyless, e.Subjects); err != nil {
		return err
	}
	fields := e.Catalogue.Subjects()
	encoded, _ := json.Marshal(fields) // strings cannot fail
	step := int64(window)
	found := map[string][]int64{}
	read := func(sql string, args ...any) error {
		var campaign string
		var seq int64
		return rows.Each(ctx, db, []any{&campaign, &seq}, func() { found[campaign] = append(found[campaign], seq) },
			"find events of the subjects", sql, append([]any{e.Subjects, e.personal}, args...)...)
	}
	visitAll := func() error {
		for _, campaign := range slices.Sorted(maps.Keys(found)) {
			slices.Sort(found[campaign])
			if err := visit(campaign, slices.Compact(found[campaign])); err != nil {
				return err
			}
		}
		clear(found)
		return nil
	}
	if len(fields) == 0 {
		step = math.MaxInt64 / 2 // archived events have stubs if they have tags
	} else {
		err = e.search(ctx, db, slices.Sorted(maps.Keys(fields)), func(object string, lines []byte) error {
			return read(queryLines, encoded, e.keys, string(lines), object)
		})
	}
	for after := int64(0); err == nil; after += step {
		if err = visitAll(); err != nil || after >= last {
			return err
		}
		if err = read(queryTagged, after, after+step); err == nil && len(fields) > 0 {
			err = read(queryNamed, encoded, e.keys, after, after+step)
		}
	}
	return err
}

// search visits the objects of the archive that may have events of types.
func (e *run) search(ctx context.Context, db journal.Querier, types []string, visit func(string, []byte) error) error {
	if e.Archive != nil {
		return archive.Search(ctx, db, e.Archive, types, visit)
	}
	object, err := rows.One(ctx, db, pgx.RowTo[string], "", queryArchived, types)
	if err == nil && object != "" {
		err = refuse(object)
	}
	return err
}
