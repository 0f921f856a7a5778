package failed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// replayCampaigns limits the campaigns of one call, and is the default limit of [ReplayAll]: their
// leases stay locked until the transaction ends.
const replayCampaigns = 5000

// ErrNotResettable is returned for a replay from scratch of a projection whose rows cannot be
// deleted by campaign. Its message names the table and the remedy.
var ErrNotResettable = errors.New("projection cannot be reset")

// ErrUnknown is returned for a replay of a projection or campaign that does not exist. Its message names it.
var ErrUnknown = errors.New("there is nothing to replay")

// ReplayRequest names the events to apply again.
type ReplayRequest struct {
	Group      string
	Projection string   // "": all of the group
	Campaigns  []string // up to 5000; none means all for [CountReplay]
	// first event to apply again, on the existing rows; 0: from scratch, after deleting the campaign's rows
	From int64
}

// Replay has the projection, or the whole group, apply events of campaigns again, from event From
// on or from scratch. It returns the number of failed campaigns filed. All workers bring them to
// the group's checkpoint while live work goes on. A replay from scratch ends with the same rows as
// live work would have. A campaign's rows are deleted in the transaction that applies its first
// event again, so readers never see it empty.
//
// A failed or dead campaign starts over; one that stands before From stays there. A campaign whose
// checkpoint has not reached From is left alone. Replay returns [ErrNotResettable] if a projection
// cannot be replayed from scratch, and [ErrUnknown] if the projection or campaign does not exist.
//
// The tables that a rebuild builds (NAME~next) or has replaced (NAME~previous) are projections of
// the group too. Until such a set is in step, as while it joins, it starts with the campaign's
// first event in any case. Tables that a rebuild has not made yet, or is giving up, are left out.
//
// Of a projection across campaigns, which r must name, Replay takes keys instead of campaigns, and
// only from scratch. Its rows are deleted by its projector.Resetter. The key "-" stands for the whole
// set of tables: workers delete all rows, and apply the journal from the first event.
//
// Replay takes the campaigns from the workers that hold them; their work under way is done again.
// Until tx ends the leases stay locked, and the replayed tables are neither swapped nor dropped.
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

// ReplayAll replays up to limit campaigns (0: 5000) of r's group, those after the cursor ("": from
// the first). r names no campaigns. It returns the number of failed campaigns filed and the next
// cursor, "" at the end. Use one transaction per call. A projection across campaigns is replayed as a
// whole at once if r names it.
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
	if len(projections) > 0 && projections[0].Across {
		r.Campaigns = []string{allKeys}
		n, err = r.file(ctx, tx, projections, act)
		return n, "", err
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

// file files the campaigns, which must exist, and wakes waiting workers.
func (r ReplayRequest) file(
	ctx context.Context, tx pgx.Tx, projections []replayable, act Act,
) (n int64, err error) {
	campaigns, query := slices.Compact(slices.Sorted(slices.Values(r.Campaigns))), queryReplay
	if across := projections[0].Across; across {
		query = queryReplayKeys
		campaigns, err = r.takeKeys(ctx, tx, campaigns)
	} else {
		err = lease.Fence(ctx, tx, r.Group, campaigns)
	}
	if err != nil {
		return 0, err
	}
	names, firsts, resets := make([]string, len(projections)), make([]int64, len(projections)),
		make([]bool, len(projections))
	for i, p := range projections {
		names[i] = p.Name
		firsts[i], resets[i] = p.place(r.From)
	}
	err = tx.QueryRow(ctx, query, r.Group, campaigns, names, r.From, act.By, act.Reason, firsts, resets).Scan(&n)
	if err != nil {
		return 0, err
	}
	return n, lease.Wake(ctx, tx)
}

// takeKeys takes the places of the set of tables from their holders, and returns the keys to file. With
// allKeys among them the set is applied again as a whole.
func (r ReplayRequest) takeKeys(ctx context.Context, tx pgx.Tx, keys []string) ([]string, error) {
	if !slices.Contains(keys, allKeys) {
		return keys, ledger.Fence(ctx, tx, []string{r.Projection})
	}
	if err := ledger.Rewind(ctx, tx, r.Projection); err != nil {
		return nil, err
	}
	_, err := tx.Exec(ctx, queryForgetKeys, r.Group, r.Projection)
	return []string{allKeys}, err
}

// CountReplay counts what [Replay] would file: for the named campaigns or, if none are named, for
// all. It returns the errors that Replay would.
func CountReplay(ctx context.Context, db event.Querier, r ReplayRequest) (int64, error) {
	projections, err := r.validate(ctx, db, queryReplayable)
	if err != nil {
		return 0, fmt.Errorf("count a replay: %w", err)
	}
	if projections[0].Across {
		return max(1, int64(len(r.Campaigns))), nil
	}
	n, err := rows.One(ctx, db, pgx.RowTo[int64], "count a replay", queryCountCampaigns, r.Group, r.From, r.Campaigns)
	if err != nil {
		return 0, err
	}
	return n * int64(len(projections)), nil
}

// Resettable returns [ErrNotResettable] if the projection cannot be replayed from scratch.
func Resettable(ctx context.Context, db event.Querier, group, projection string) error {
	_, err := ReplayRequest{Group: group, Projection: projection}.validate(ctx, db, queryReplayable)
	return err
}

// validate checks the request and returns the projections to replay, as query reads them.
func (r ReplayRequest) validate(
	ctx context.Context, db event.Querier, query string,
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
		switch {
		case p.Across:
			errs = append(errs, p.checkKeys(r))
		case r.From == 0:
			errs = append(errs, p.check())
		}
	}
	switch {
	case len(projections) == 0 && r.Projection != "":
		errs = append(errs, fmt.Errorf("%w: consumer group %q has no projection %q", ErrUnknown, r.Group, r.Projection))
	case len(projections) == 0:
		errs = append(errs, fmt.Errorf("%w: consumer group %q has no projections", ErrUnknown, r.Group))
	}
	if err := errors.Join(errs...); err != nil || len(r.Campaigns) == 0 || projections[0].Across {
		return projections, err
	}
	missing, err := rows.All(ctx, db, pgx.RowTo[string], "", queryNoCampaign, r.Campaigns)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("%w: campaign %q has no events", ErrUnknown, missing[0])
	}
	return projections, err
}

type replayable struct {
	Name     string
	State    string // copying, copied, joining or active
	Across   bool   // across campaigns: keys are replayed
	Places   int    // its partitions
	OwnReset bool
	Tables   int
	Mixed    []string // tables without a column campaign_id
}

// place returns the first event of a replay from from on (0: from scratch), and whether rows are
// deleted first. A set that is not in step yet starts with the first event.
func (p replayable) place(from int64) (first int64, reset bool) {
	if p.State != "active" && !p.Across {
		return 1, from == 0 || p.State != "joining"
	}
	return max(from, 1), from == 0
}

// check returns why the projection cannot be reset, or nil.
func (p replayable) check() error {
	switch {
	case p.OwnReset:
		return nil
	case p.Tables == 0:
		return fmt.Errorf("%w: projection %s has created no tables, so nothing says what to delete: have it implement "+
			"projector.Resetter, or replay from an event on", ErrNotResettable, p.Name)
	case len(p.Mixed) > 0:
		return fmt.Errorf("%w: projection %s: table %s has no column campaign_id of type text, so a campaign's rows "+
			"cannot be found: add one, have the projection implement projector.Resetter, or replay from an event on",
			ErrNotResettable, p.Name, p.Mixed[0])
	}
	return nil
}

// allKeys is the key of the events that have none. It stands for the whole set of tables.
const allKeys = "-"

// checkKeys returns why the keys of a projection across campaigns cannot be replayed, or nil.
func (p replayable) checkKeys(r ReplayRequest) error {
	all := len(r.Campaigns) == 0 || slices.Contains(r.Campaigns, allKeys)
	switch {
	case r.From > 0:
		return fmt.Errorf("%w: projection %s is across campaigns, so event %d is not the same for its keys: replay it "+
			"from scratch", ErrNotResettable, p.Name, r.From)
	case all && p.Places > 1:
		return fmt.Errorf("%w: projection %s: it has %d partitions, and an event without a key may be any key's: "+
			"rebuild it", ErrNotResettable, p.Name, p.Places)
	case all && p.Tables > 0 || p.OwnReset:
		return nil
	}
	return fmt.Errorf("%w: projection %s: none of its code deletes the rows of a key: have it implement "+
		"projector.Resetter, or rebuild it", ErrNotResettable, p.Name)
}
