package failed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// ErrNotResolved is returned by [Unresolve] for an event that is not resolved for the projection.
var ErrNotResolved = errors.New("the event is not resolved")

// Resolve leaves event seq out for good, for a campaign that failed at it or is dead. The campaign
// goes on with the next event at once. Its rows stay as if the event did not exist, also after
// rebuilds and replays, until [Unresolve]. Resolve returns [ErrConflict] if the campaign stands at
// another event by now, or has not failed at it.
//
// The event is left out of all sets of tables of the projection. A set that has applied it, such as
// one that a rebuild builds or has replaced, applies the campaign from scratch. On
// [ErrNotResettable] a set cannot: roll tx back.
//
// Until tx ends the projection's tables are neither swapped nor dropped. Resolve takes the campaign
// from the worker that holds it, whose work under way is done again, and locks its lease until tx
// ends. Call it before other acts in tx. It waits for a worker that is committing. It also waits,
// until the group ends, for one that applies the campaign savepointed, because that one's fence
// runs first. Set a lock_timeout to bound the wait.
func Resolve(ctx context.Context, tx pgx.Tx, key Key, seq int64, act Act) (err error) {
	defer rows.Explain(&err, "resolve event %d for %s", seq, key)
	if err := errors.Join(key.validate(), act.validate(true)); err != nil {
		return err
	}
	sets, err := keepSets(ctx, tx, key.Projection)
	if err != nil {
		return err
	}
	seen, err := get(ctx, tx, key)
	if err != nil {
		return err
	}
	if err := fence(ctx, tx, sets, []candidate{{Place: seen.Place(), Group: seen.Group}}); err != nil {
		return err
	}
	chosen, err := lockOne(ctx, tx, key)
	if err != nil {
		return err
	}
	if chosen.NextSeq != seq {
		return fmt.Errorf("%w: it stands before event %d", ErrConflict, chosen.NextSeq)
	}
	_, err = settle(ctx, tx, []candidate{chosen}, act)
	return err
}

// ResolvePlaces resolves the events that failed campaigns still stand before, by their places, and
// returns them. It skips campaigns that are being written. It takes the locks of [Resolve].
func ResolvePlaces(ctx context.Context, tx pgx.Tx, places []Place, act Act) (_ []Key, err error) {
	defer rows.Explain(&err, "resolve failed campaigns")
	sets, err := keepSets(ctx, tx, "")
	if err != nil {
		return nil, err
	}
	found, err := at(ctx, tx, places, act.validate(true))
	if err != nil {
		return nil, err
	}
	if err := fence(ctx, tx, sets, found); err != nil {
		return nil, err
	}
	taken, err := take(ctx, tx, found)
	if err != nil {
		return nil, err
	}
	return settle(ctx, tx, taken, act)
}

// Unresolve takes back a resolution. Each set of tables that has passed the event applies the
// campaign again from scratch, and may fail at it again. If the projection is not registered, only
// the resolution is deleted. Unresolve returns [ErrNotResolved] if there is none. On
// [ErrNotResettable] a set's rows cannot be deleted, so the event cannot be applied in its place:
// roll tx back.
//
// It takes the locks of [Resolve].
func Unresolve(ctx context.Context, tx pgx.Tx, key Key, seq int64, act Act) (err error) {
	defer rows.Explain(&err, "take back that event %d is resolved for %s", seq, key)
	if err := errors.Join(key.validate(), act.validate(true)); err != nil {
		return err
	}
	projection, group := base(key.Projection), ""
	kept, err := keepSets(ctx, tx, projection)
	if err != nil {
		return err
	}
	if len(kept) > 0 { // else no worker applies it
		group = kept[0].Group
		if err := fence(ctx, tx, kept, []candidate{{Place: Place{Key: key}, Group: group}}); err != nil {
			return err
		}
	}
	n, err := rows.Exec(ctx, tx, "", queryUnresolve, key.CampaignID, projection, seq, group, act.By, act.Reason)
	if err == nil && n == 0 {
		err = ErrNotResolved
	}
	if err != nil {
		return err
	}
	sets, err := beyond(ctx, tx, []string{key.CampaignID}, []string{projection}, []int64{seq})
	if err != nil {
		return err
	}
	return beginAnew(ctx, tx, sets, act)
}

// set is a registered set of tables.
type set struct {
	Group, Name string
	Across      bool // of a projection across campaigns: its rows in tidemark.failed are for keys
}

// keepSets locks a projection's sets, or all, against swaps and drops until tx ends, and returns them.
func keepSets(ctx context.Context, tx pgx.Tx, projection string) ([]set, error) {
	return rows.All(ctx, tx, pgx.RowToStructByPos[set], "", queryKeepSets, pgx.QueryExecModeCacheDescribe,
		base(projection))
}

// fence takes failed campaigns from the workers that hold them, and of keys the places of all sets
// of their projection.
func fence(ctx context.Context, tx pgx.Tx, sets []set, found []candidate) error {
	across := map[string][]string{} // sets of a projection
	for _, s := range sets {
		if s.Across {
			across[base(s.Name)] = append(across[base(s.Name)], s.Name)
		}
	}
	campaigns, places := map[string][]string{}, map[string]bool{}
	for _, c := range found {
		for _, name := range across[base(c.Projection)] {
			places[name] = true
		}
		if across[base(c.Projection)] == nil {
			campaigns[c.Group] = append(campaigns[c.Group], c.CampaignID)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(campaigns)) {
		if err := lease.Fence(ctx, tx, group, campaigns[group]); err != nil {
			return err
		}
	}
	return ledger.Fence(ctx, tx, slices.Collect(maps.Keys(places)))
}

// settle leaves out for good the events at which campaigns failed. The caller has locked, in this
// order, the registry rows, the leases and the failed campaigns.
func settle(ctx context.Context, tx pgx.Tx, chosen []candidate, act Act) ([]Key, error) {
	if len(chosen) == 0 {
		return []Key{}, nil
	}
	campaigns, projections, seqs := columns(chosen)
	for i := range projections {
		projections[i] = base(projections[i])
	}
	sets, err := beyond(ctx, tx, campaigns, projections, seqs)
	if err != nil {
		return nil, err
	}
	err = rows.Do(ctx, tx, "", queryInsertResolutions, campaigns, projections, seqs, act.By, act.Reason)
	if err != nil {
		return nil, err
	}
	keys, err := write(ctx, tx, queryResolve, chosen, act)
	if err != nil {
		return nil, err
	}
	siblings, err := collect(ctx, tx, querySiblings, campaigns, projections, seqs)
	if err == nil {
		_, err = write(ctx, tx, queryResolve, siblings, act)
	}
	if err != nil {
		return nil, err
	}
	return keys, beginAnew(ctx, tx, sets, act)
}

// applied is a set of tables that has passed an event of a campaign.
type applied struct{ Group, Set, CampaignID string }

// beyond returns the sets of tables that have passed the events.
func beyond(ctx context.Context, tx pgx.Tx, campaigns, projections []string, seqs []int64) ([]applied, error) {
	return rows.All(ctx, tx, pgx.RowToStructByPos[applied], "", queryBeyond, campaigns, projections, seqs)
}

// beginAnew has the sets of tables apply their campaigns from scratch.
func beginAnew(ctx context.Context, tx pgx.Tx, sets []applied, act Act) error {
	for i := 0; i < len(sets); {
		r := ReplayRequest{Group: sets[i].Group, Projection: sets[i].Set}
		for ; i < len(sets) && sets[i].Set == r.Projection && len(r.Campaigns) < replayCampaigns; i++ {
			r.Campaigns = append(r.Campaigns, sets[i].CampaignID)
		}
		if _, err := Replay(ctx, tx, r, act); err != nil {
			return err
		}
	}
	return nil
}
