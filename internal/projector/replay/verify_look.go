package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// verifyShown is the most differences of a batch that are kept.
const verifyShown = 1000

// mostDiffering bounds the campaigns or keys with differences that are named.
const mostDiffering = 1_000_000

// findings is the result for a batch of campaigns.
type findings struct {
	tables      []lookback.VerifiedTable // as in the report
	differences []lookback.Difference    // the first verifyShown of them
	campaigns   []string                 // with differences, sorted
	passed      int64                    // campaigns in which the projection is being rebuilt
	events      int64
	failed      *projection.ApplyError // if set, only resolutions are set too
	resolutions []lookback.Resolution
}

// look applies the campaigns' events and compares the rows. It leaves out resolved events and, for
// a single campaign, skipped ones. If the projection fails, it returns only the failure and
// resolutions.
func (v *verification) look(ctx context.Context, ids []string, skipped []int64) (*findings, error) {
	s, err := v.p.openScratch(ctx, v.k)
	if err != nil {
		return nil, err
	}
	defer s.close(ctx)
	if err := v.still(ctx, s.Conn); err != nil {
		return nil, err
	}
	units, err := s.places(ctx, v.request.Projection, ids)
	if err != nil {
		return nil, err
	}
	f := &findings{passed: int64(len(ids) - len(units))}
	ids = slice.Of(units, func(u *apply.Unit) string { return u.Lease.CampaignID })
	if f.resolutions, err = s.leaveOutResolved(ctx, ids); err != nil {
		return nil, err
	}
	if len(ids) == 1 {
		s.leaveOutSkipped(map[string][]int64{ids[0]: skipped})
		s.skips = s.k.MaySkip()
	}
	err = s.advance(ctx, slices.DeleteFunc(slices.Clone(units), func(u *apply.Unit) bool { return u.Until == 0 }))
	if errors.As(err, &f.failed) && !v.p.Infrastructure(ctx, err) && !v.outage(f.failed) {
		return &findings{failed: f.failed, resolutions: f.resolutions}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(s.untouched(ctx), s.unbounded(ctx)); err != nil {
		return nil, err
	}
	f.events = int64(s.applied)
	return f, v.compareWith(ctx, s, f, chosen{ids: ids})
}

// outage reports whether a failure of the projection says nothing about its events: the verification ends.
func (v *verification) outage(failed *projection.ApplyError) bool {
	return v.k.Classify(failed.Err) == projection.ClassInfrastructure
}

// compareWith compares the live tables with those of a scratch.
func (v *verification) compareWith(ctx context.Context, s *scratch, f *findings, c chosen) error {
	differing := map[string]bool{}
	compared := s.tables
	if s.fold == nil {
		compared = slices.DeleteFunc(slices.Clone(compared), func(t scratchTable) bool { return t.Owner == "" })
	}
	if err := v.p.hold(ctx, s.Conn, v.k.Schema,
		slice.Of(compared, func(t scratchTable) string { return t.Name })); err != nil {
		return err
	}
	for _, t := range compared {
		counts, err := s.compare(ctx, t, pgx.Identifier{v.k.Schema, t.Name}.Sanitize(), ignored(v.request, t), c,
			func(d lookback.Difference) {
				if d.CampaignID == "" && s.fold != nil {
					d.CampaignID = projection.AllKeys
				}
				if len(f.differences) < verifyShown {
					f.differences = append(f.differences, d)
				}
				if len(differing) < mostDiffering {
					differing[d.CampaignID] = true
				}
			})
		if err != nil {
			return fmt.Errorf("compare the table %s.%s: %w", v.k.Schema, t.Name, err)
		}
		f.tables = append(f.tables, counts)
	}
	f.campaigns = slices.Sorted(maps.Keys(differing))
	return nil
}

// places returns units for the campaigns whose rows stand at a known event: all except those being
// rebuilt. Campaigns that the projection has not begun end at 0.
func (s *scratch) places(ctx context.Context, pair string, ids []string) ([]*apply.Unit, error) {
	checkpoints, err := lease.Checkpoints(ctx, s.Conn, s.Applier.Cfg.ConsumerGroup, ids)
	if err != nil {
		return nil, err
	}
	rebuilding := map[string]bool{}
	failed.Standings(s.Batch, s.Applier.Cfg.ConsumerGroup, ids, func(d *failed.Standing) {
		switch {
		case d.Projection != pair:
		case d.Failed && !d.Reset:
			checkpoints[d.CampaignID] = d.NextSeq - 1
		default:
			rebuilding[d.CampaignID] = true
		}
	})
	if err := s.Flush(ctx); err != nil {
		return nil, err
	}
	var units []*apply.Unit
	for _, id := range ids {
		if !rebuilding[id] {
			units = append(units, &apply.Unit{Lease: lease.Lease{CampaignID: id}, Until: checkpoints[id]})
		}
	}
	return units, nil
}

func (s *scratch) unbounded(ctx context.Context) error {
	s.InForce = 0
	return s.Exec(ctx, queryUnbounded)
}

// ignored returns the table's columns that are not compared.
func ignored(r lookback.VerifyRequest, t scratchTable) []string {
	columns := append([]string{}, t.Numbered...) // not nil: NULL would remove all columns
	for _, name := range r.Ignore {
		table, column, qualified := strings.Cut(name, ".")
		switch {
		case !qualified:
			columns = append(columns, table)
		case table == t.Name:
			columns = append(columns, column)
		}
	}
	return columns
}

// chosen are the campaigns or keys whose rows are compared.
type chosen struct {
	ids    []string
	except bool // all others
}

// compare reports the rows of campaigns or keys in which a table differs from its scratch table.
func (s *scratch) compare(
	ctx context.Context, t scratchTable, other string, ignored []string, c chosen, differs func(lookback.Difference),
) (lookback.VerifiedTable, error) {
	counts := lookback.VerifiedTable{Table: t.Name}
	if c.ids == nil {
		c.ids = []string{}
	}
	_, filter := t.filter(c)
	err := s.Conn.QueryRow(ctx, fmt.Sprintf(formatCountRows, s.table(t.Name), filter), c.ids).Scan(&counts.Rows)
	if err != nil {
		return counts, err
	}
	var campaign string
	var key, want, got []byte
	var times int64
	var unread error
	err = rows.Each(ctx, s.Conn, []any{&campaign, &key, &want, &got, &times}, func() {
		d := lookback.Difference{
			CampaignID: campaign, Table: t.Name, Key: slices.Clone(key), Want: slices.Clone(want),
			Got: slices.Clone(got),
		}
		switch {
		case got == nil:
			d.Kind = lookback.DifferenceMissing
			counts.Missing += times
		case want == nil:
			d.Kind = lookback.DifferenceExtra
			counts.Extra += times
		default:
			d.Kind = lookback.DifferenceDifferent
			var err error
			d.Columns, err = t.differing(want, got)
			unread = cmp.Or(unread, err)
			counts.Different += times
		}
		for range times {
			differs(d)
		}
	}, "", t.comparison(s.table(t.Name), other, ignored, c), c.ids, ignored)
	return counts, cmp.Or(err, unread)
}

// comparison returns the statement that finds differing rows of two quoted tables. $1 are the
// campaigns or keys, $2 the ignored columns. It compares values as JSON and matches rows by primary key.
// Without a key, or if the database numbers it, it counts equal rows.
func (t scratchTable) comparison(want, got string, ignored []string, c chosen) string {
	byKey := len(t.Key) > 0
	quoted := make([]string, len(t.Key))
	for i, column := range t.Key {
		byKey = byKey && !slices.Contains(ignored, column)
		quoted[i] = "t." + pgx.Identifier{column}.Sanitize()
	}
	campaign, filter := t.filter(c)
	if !byKey {
		side := fmt.Sprintf(formatRowsOfSide, campaign, filter)
		return fmt.Sprintf(fmt.Sprintf(formatUnlikeCounts, side), 1, want, -1, got)
	}
	side := fmt.Sprintf(formatKeyedRowsOfSide, campaign, strings.Join(quoted, ", "), filter)
	return fmt.Sprintf(fmt.Sprintf(formatUnlikeRows, side), want, got)
}

// filter returns the expression for the campaign or key of a row, and the condition on rows. $1 are
// the ids.
func (t scratchTable) filter(c chosen) (campaign, filter string) {
	owner := "t." + pgx.Identifier{t.Owner}.Sanitize()
	switch {
	case t.Owner == "":
		return "''", "$1::text[] IS NOT NULL" // all of them
	case c.except:
		filter = owner + "::text <> ALL ($1::text[])"
	default:
		filter = owner + "::text = ANY ($1::text[])"
	}
	return "coalesce(" + owner + `::text COLLATE "C", '')`, filter
}

// differing returns the columns in which two rows differ.
func (t scratchTable) differing(want, got []byte) ([]string, error) {
	var a, b map[string]json.RawMessage
	if err := json.Unmarshal(want, &a); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(got, &b); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(t.Columns), func(column string) bool {
		return string(a[column]) == string(b[column])
	}), nil
}

// sample chooses n campaigns of the journal at random, all equally likely.
func sample(ctx context.Context, db event.Querier, n int) ([]string, error) {
	chosen, seen := make([]string, 0, n), 0
	err := eachPage(ctx, db, func(ids []string) error {
		for _, id := range ids {
			seen++
			if len(chosen) < n {
				chosen = append(chosen, id)
			} else if i := rand.IntN(seen); i < n {
				chosen[i] = id
			}
		}
		return nil
	})
	slices.Sort(chosen)
	return chosen, err
}
