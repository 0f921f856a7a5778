package deferred

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// Search is [List] for failed and dead pairs with a bound on its cost: it looks at no more than the
// next look pairs, whether or not they match. end is the place to go on from as f.After; nil: there
// are no more pairs.
func Search(ctx context.Context, db journal.Querier, f Filter, look int) (pairs []Pair, end *Place, err error) {
	if f, err = f.acting(); err != nil {
		return nil, nil, fmt.Errorf("search deferred pairs: %w", err)
	}
	if f.Limit == 0 {
		f.Limit = listLimit
	}
	if f.narrow() {
		pairs, err = List(ctx, db, f)
		if err == nil && len(pairs) == f.Limit {
			place := pairs[len(pairs)-1].Place()
			end = &place
		}
		return pairs, end, err
	}
	pairs, end, err = search(ctx, db, f, look)
	if err != nil {
		return nil, nil, fmt.Errorf("search deferred pairs: %w", f.explain(err))
	}
	return pairs, end, nil
}

// narrow says whether an index leads to what the filter chooses.
func (f Filter) narrow() bool {
	rest := f
	rest.Status, rest.After, rest.Limit, rest.CampaignID, rest.Projection, rest.Fingerprint = nil, nil, 0, "", "", ""
	return f.CampaignID != "" || rest.open() && (f.Projection == "") == (f.Fingerprint == "")
}

// open says whether none of the conditions is set that no index knows.
func (f Filter) open() bool {
	return f.Group == "" && f.EventType == "" && f.Class == "" && f.Code == "" && f.MessagePattern == "" &&
		f.OlderThan == 0 && f.NewerThan == 0
}

func search(ctx context.Context, db journal.Querier, f Filter, look int) (pairs []Pair, end *Place, err error) {
	rows, err := db.Query(ctx, querySearch, f.args(listLimit, look)...)
	if err != nil {
		return nil, nil, err
	}
	found, err := pgx.CollectRows(rows, scanSearched)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range found {
		if place := s.pair.Place(); s.last {
			end = &place
		} else {
			pairs = append(pairs, s.pair)
		}
	}
	if len(pairs) == f.Limit {
		place := pairs[len(pairs)-1].Place()
		end = &place
	}
	return pairs, end, nil
}

// searched is a pair that matches or, where last, the last that was looked at.
type searched struct {
	last bool
	pair Pair
}

func scanSearched(row pgx.CollectableRow) (s searched, err error) {
	s.pair, err = scanPairAfter(row, &s.last)
	return s, err
}
