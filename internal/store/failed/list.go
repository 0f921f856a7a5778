package failed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Filter chooses failed campaigns. Zero fields match all.
type Filter struct {
	Group       string // consumer group
	Projection  string
	CampaignID  string
	EventType   string // of the event that failed
	Class       string // infrastructure, transient, permanent or lock
	Code        string // a SQLSTATE, panic, deadline, crash, decode or error
	Fingerprint string

	Status    []Status      // any of these; nil: all for [List] and [Count], Failed and Dead for acts
	OlderThan time.Duration // since the first failure at the event; failed ones without that time match; whole µs
	After     *Place        // only campaigns after it in the order of [List]: the last Place of the previous page
	Limit     int           // 0: 100 for [List], all for [Count] and acts
}

const listLimit = 100

// acting returns the filter for an act: failed and dead campaigns only.
func (f Filter) acting() (Filter, error) {
	if slices.Contains(f.Status, CatchingUp) {
		return f, fmt.Errorf("Status holds %q: such a campaign catches up by itself; take %q and %q",
			CatchingUp, Failed, Dead)
	}
	if len(f.Status) == 0 {
		f.Status = []Status{Failed, Dead}
	}
	return f, f.validate()
}

func (f Filter) validate() error {
	errs := texts(f.Group, f.Projection, f.CampaignID, f.EventType, f.Class, f.Code, f.Fingerprint)
	for _, s := range f.Status {
		if !slices.Contains(Statuses(), s) {
			errs = append(errs, fmt.Errorf("Status holds %q: known are %q", s, Statuses()))
		}
	}
	if f.OlderThan < 0 {
		errs = append(errs, fmt.Errorf("OlderThan is %v: it must not be negative", f.OlderThan))
	}
	if f.Limit < 0 {
		errs = append(errs, fmt.Errorf("Limit is %d: it must not be negative", f.Limit))
	}
	return errors.Join(errs...)
}

// args returns the arguments $1 to $15 of the statements that choose failed campaigns. limit
// applies where the filter has none (0: all). CacheDescribe keeps no plan, so Postgres plans for
// the arguments each time: one statement serves all filters, and open fields cost nothing.
func (f Filter) args(limit int, more ...any) []any {
	var most *int
	if limit = cmp.Or(f.Limit, limit); limit > 0 {
		most = &limit
	}
	status := f.Status
	if len(status) == 0 {
		status = Statuses()
	}
	after := Place{}
	if f.After != nil {
		after = *f.After
	}
	args := []any{
		pgx.QueryExecModeCacheDescribe, status, f.Group, f.Projection, f.CampaignID, f.EventType, f.Class, f.Code,
		f.Fingerprint, f.OlderThan, f.After != nil, timestamp(after.NextAttemptAt), after.NextSeq, after.CampaignID,
		after.Projection, most,
	}
	return append(args, more...)
}

// timestamp converts a time for tidemark.failed, where campaigns that wait for an operator are due at 'infinity'.
func timestamp(t time.Time) pgtype.Timestamptz {
	if t.IsZero() {
		return pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}
	}
	return pgtype.Timestamptz{Time: t, Valid: true}
}

// List returns the failed campaigns that f chooses, ordered by NextAttemptAt, NextSeq, campaign and
// projection. For the next page, set f.After to the last Place.
func List(ctx context.Context, db event.Querier, f Filter) (_ []Campaign, err error) {
	defer rows.Explain(&err, "list failed campaigns")
	if err := f.validate(); err != nil {
		return nil, err
	}
	return rows.All(ctx, db, pgx.RowToStructByPos[Campaign], "", queryList, f.args(listLimit)...)
}

// Count counts the failed campaigns that f chooses, at most f.Limit if set. It reads all of them.
// Unlike an act it includes campaigns that are being rebuilt; set f.Status to leave them out.
func Count(ctx context.Context, db event.Querier, f Filter) (_ int64, err error) {
	defer rows.Explain(&err, "count failed campaigns")
	if err := f.validate(); err != nil {
		return 0, err
	}
	return rows.One(ctx, db, pgx.RowTo[int64], "", queryCount, f.args(0)...)
}

// Search is [List] for failed and dead campaigns with a bounded cost: it reads no more than the
// next look campaigns, matching or not. Continue with end as f.After; nil means there are no more.
func Search(ctx context.Context, db event.Querier, f Filter, look int) (found []Campaign, end *Place, err error) {
	defer rows.Explain(&err, "search failed campaigns")
	if f, err = f.acting(); err != nil {
		return nil, nil, err
	}
	f.Limit = cmp.Or(f.Limit, listLimit)
	if f.narrow() {
		found, err = List(ctx, db, f)
	} else {
		found, end, err = search(ctx, db, f, look)
	}
	if len(found) == f.Limit {
		place := found[len(found)-1].Place()
		end = &place
	}
	return found, end, err
}

// narrow reports whether an index fits the filter: by campaign, by projection and fingerprint, or
// in the order of [List] without further conditions.
func (f Filter) narrow() bool {
	open := f.Group == "" && f.EventType == "" && f.Class == "" && f.Code == "" && f.OlderThan == 0
	return f.CampaignID != "" || open && (f.Projection == "") == (f.Fingerprint == "")
}

// search returns the matches among the next look campaigns, and the place of the last one read.
func search(ctx context.Context, db event.Querier, f Filter, look int) (matching []Campaign, end *Place, err error) {
	type searched struct {
		Last bool // the last one read
		Campaign
	}
	found, err := rows.All(ctx, db, pgx.RowToStructByPos[searched], "", querySearch, f.args(0, look)...)
	for _, s := range found {
		if place := s.Place(); s.Last {
			end = &place
		} else {
			matching = append(matching, s.Campaign)
		}
	}
	return matching, end, err
}
