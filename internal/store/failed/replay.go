package failed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// replayCampaigns is how many campaigns one call may name, and how many [ReplayAll] takes unless
// told: their leases are locked until the transaction ends.
const replayCampaigns = 5000

// ErrNotResettable is returned for a replay from scratch of a projection whose rows no code knows
// how to delete; its message names the table and the remedy.
var ErrNotResettable = errors.New("projection cannot be reset")

// ErrUnknown is returned for a replay of a projection or a campaign that does not exist; its message says which.
var ErrUnknown = errors.New("there is nothing to replay")

// ReplayRequest says what is to be applied again.
type ReplayRequest struct {
	Group      string
	Projection string   // "": all of the group
	Campaigns  []string // up to 5000; [CountReplay] takes none for all
	// the first event to apply again, on the rows as they are; 0: from scratch, after the campaign's
	// rows have been deleted
	From int64
}

// Replay has the projection, or all of the group, apply events of campaigns again, from event From
// on or from scratch, and answers how many pairs that makes. They are brought to the group's
// checkpoint as any pair that is behind, by all workers and while live work goes on; from scratch
// they end with the rows that they would have if they had been live all the time. The rows of a
// campaign are deleted in the transaction that applies the first of its events again, so that
// readers never see it empty.
//
// A pair that failed or is dead begins anew; one that stands before From begins where it stands. A
// campaign whose checkpoint has not reached From is left alone. [ErrNotResettable] says that a
// projection cannot be replayed from scratch, [ErrUnknown] that there is no such projection or
// campaign.
//
// The tables that a rebuild builds (NAME~next) or has replaced (NAME~previous) are projections of
// the group too. Where they are not in step anywhere yet, as those of a projection that is joining,
// they begin with the campaign's first event in any case. Tables that a rebuild has not made yet,
// or is giving up, are left out.
//
// Replay takes the campaigns from the workers that hold them, whose work under way is done again,
// and locks their leases until tx ends. Until then what it replays is neither exchanged nor
// dropped.
func Replay(ctx context.Context, tx pgx.Tx, r ReplayRequest, act Act) (_ int64, err error) {
	defer rows.Explain(&err, "replay")
	if err := act.validate(false); err != nil {
		return 0, err
	}
	if len(r.Campaigns) == 0 {
		return 0, errors.New("Campaigns is empty: name at least one campaign, or use ReplayAll")
	}
	projections, err := r.validate(ctx, tx, queryReplayableNow)
	if err != nil {
		return 0, err
	}
	return r.file(ctx, tx, projections, act)
}

// ReplayAll replays, as r asks for, up to limit campaigns (0: 5000) of all of its group, those
// whose ids come after the cursor ("": from the first); r names none. It answers how many pairs
// that makes, and the cursor of the next call, "" at the end. Each call is best a transaction of
// its own.
func ReplayAll(
	ctx context.Context, tx pgx.Tx, r ReplayRequest, cursor string, limit int, act Act,
) (n int64, next string, err error) {
	defer rows.Explain(&err, "replay")
	limit = cmp.Or(limit, replayCampaigns)
	if err := act.validate(false); err != nil {
		return 0, "", err
	}
	if len(r.Campaigns) > 0 {
		return 0, "", fmt.Errorf("Campaigns names %q: ReplayAll takes all of the group, Replay those that are named",
			r.Campaigns[0])
	}
	if limit < 1 || limit > replayCampaigns {
		return 0, "", fmt.Errorf("limit is %d, it must be 1 to %d: replay more in several transactions", limit,
			replayCampaigns)
	}
	projections, err := r.validate(ctx, tx, queryReplayableNow)
	if err != nil {
		return 0, "", err
	}
	r.Campaigns, err = rows.All(ctx, tx, pgx.RowTo[string], "", queryMovedCampaigns, r.Group, cursor, limit)
	if err != nil || len(r.Campaigns) == 0 {
		return 0, "", err
	}
	if len(r.Campaigns) == limit {
		next = r.Campaigns[limit-1]
	}
	n, err = r.file(ctx, tx, projections, act)
	return n, next, err
}

// file files the pairs, of campaigns that exist, and wakes workers that wait.
func (r ReplayRequest) file(
	ctx context.Context, tx pgx.Tx, projections []replayable, act Act,
) (n int64, err error) {
	campaigns := slices.Compact(slices.Sorted(slices.Values(r.Campaigns)))
	if err := lease.Fence(ctx, tx, r.Group, campaigns); err != nil {
		return 0, err
	}
	names, firsts, resets := make([]string, len(projections)), make([]int64, len(projections)),
		make([]bool, len(projections))
	for i, p := range projections {
		names[i] = p.Name
		firsts[i], resets[i] = p.place(r.From)
	}
	err = tx.QueryRow(ctx, queryReplay, r.Group, campaigns, names, r.From, act.By, act.Reason, firsts, resets).Scan(&n)
	if err != nil {
		return 0, err
	}
	return n, lease.Wake(ctx, tx)
}

// CountReplay answers how many pairs a replay would make: of the campaigns named or, if none is, of
// all. It refuses what [Replay] would.
func CountReplay(ctx context.Context, db journal.Querier, r ReplayRequest) (int64, error) {
	projections, err := r.validate(ctx, db, queryReplayable)
	if err != nil {
		return 0, fmt.Errorf("count a replay: %w", err)
	}
	n, err := rows.One(ctx, db, pgx.RowTo[int64], "count a replay", queryCountCampaigns, r.Group, r.From, r.Campaigns)
	if err != nil {
		return 0, err
	}
	return n * int64(len(projections)), nil
}

// Resettable refuses a projection that cannot be replayed from scratch, as [Replay] would: [ErrNotResettable].
func Resettable(ctx context.Context, db journal.Querier, group, projection string) error {
	_, err := ReplayRequest{Group: group, Projection: projection}.validate(ctx, db, queryReplayable)
	return err
}

// validate refuses what makes no sense, and answers the projections to replay, as query reads them.
func (r ReplayRequest) validate(
	ctx context.Context, db journal.Querier, query string,
) (projections []replayable, err error) {
	switch {
	case r.Group == "":
		return nil, errors.New("Group is missing: name the consumer group")
	case r.From < 0:
		return nil, fmt.Errorf("From is %d: events are numbered from 1, and 0 is from scratch", r.From)
	case len(r.Campaigns) > replayCampaigns:
		return nil, fmt.Errorf("Campaigns names %d campaigns, the limit is %d: replay more in several transactions",
			len(r.Campaigns), replayCampaigns)
	}
	projections, err = rows.All(ctx, db, pgx.RowToStructByPos[replayable], "", query, r.Group, r.Projection)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, p := range projections {
		if r.From == 0 {
			errs = append(errs, p.check())
		}
	}
	switch {
	case len(projections) == 0 && r.Projection != "":
		errs = append(errs, fmt.Errorf("%w: consumer group %q has no projection %q", ErrUnknown, r.Group, r.Projection))
	case len(projections) == 0:
		errs = append(errs, fmt.Errorf("%w: consumer group %q has no projections", ErrUnknown, r.Group))
	}
	if err := errors.Join(errs...); err != nil || len(r.Campaigns) == 0 {
		return projections, err
	}
	missing, err := rows.All(ctx, db, pgx.RowTo[string], "", queryNoCampaign, r.Campaigns)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%w: campaign %q has no events", ErrUnknown, missing[0])
	}
	return projections, err
}

// replayable is a projection that may be replayed.
type replayable struct {
	Name     string
	State    string // copying, copied, joining or active
	OwnReset bool
	Tables   int
	Mixed    []string // tables without a column campaign_id
}

// place answers where a replay from an event on (0: from scratch) begins, and whether rows are
// deleted first. Tables that are not in step anywhere yet hold nothing of a campaign, or what a
// rebuild has copied: they begin with the first event.
func (p replayable) place(from int64) (first int64, reset bool) {
	if p.State != "active" {
		return 1, from == 0 || p.State != "joining"
	}
	return max(from, 1), from == 0
}

// check says why the projection cannot be reset.
func (p replayable) check() error {
	switch {
	case p.OwnReset:
		return nil
	case p.Tables == 0:
		return fmt.Errorf("%w: projection %s has created no tables, so it is not known what to delete: have it implement "+
			"projector.Resetter, or replay from an event on", ErrNotResettable, p.Name)
	case len(p.Mixed) > 0:
		return fmt.Errorf("%w: projection %s: table %s has no column campaign_id of type text, so a campaign's rows "+
			"cannot be told: give it one, have the projection implement projector.Resetter, or replay from an event on",
			ErrNotResettable, p.Name, p.Mixed[0])
	}
	return nil
}
