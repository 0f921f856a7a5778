package failed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/internal/store/rows"
)

// ErrNotResolved is returned by [Unresolve] for an event that is not resolved for the projection.
var ErrNotResolved = errors.New("the event is not resolved")

// Resolve leaves event seq out for good, for a pair that failed at it or is dead: the pair goes on
// with the event after it, at once. Its rows in the projection's tables stay as if the event had
// never been, whatever applies the campaign again later, until [Unresolve] takes it back.
// [ErrConflict] says that the pair stands at another event by now, or has not failed at it.
//
// The event is left out of all sets of tables that the projection has: one that has applied it,
// such as the one that a rebuild builds or has replaced, applies the campaign from scratch.
// [ErrNotResettable] says that it cannot: roll tx back.
//
// Until tx ends the projection's tables are neither exchanged nor dropped. Resolve takes the
// campaign from the worker that holds it, whose work under way is done again, and locks its lease
// until tx ends. It comes before other acts in tx. It waits for a worker that is just committing,
// and for one that applies the campaign savepointed, whose fence comes first, until the group ends; a
// lock_timeout bounds the wait.
func Resolve(ctx context.Context, tx pgx.Tx, key Key, seq int64, act Act) (err error) {
	defer rows.Explain(&err, "resolve event %d for %s", seq, key)
	if err := errors.Join(key.validate(), act.validate(true)); err != nil {
		return err
	}
	if _, err := keepSets(ctx, tx, key.Projection); err != nil {
		return err
	}
	seen, err := get(ctx, tx, key)
	if err != nil {
		return err
	}
	if err := lease.Fence(ctx, tx, seen.Group, []string{key.CampaignID}); err != nil {
		return err
	}
	pair, err := lockOne(ctx, tx, key)
	if err != nil {
		return err
	}
	if pair.NextSeq != seq {
		return fmt.Errorf("%w: it stands before event %d", ErrConflict, pair.NextSeq)
	}
	_, err = settle(ctx, tx, []candidate{pair}, act)
	return err
}

// ResolvePlaces skips, for each of the pairs that have failed and stand before the event of their
// place, that event, and answers them. Pairs that another operator or a worker is writing are
// passed by. It locks what [Resolve] does.
func ResolvePlaces(ctx context.Context, tx pgx.Tx, places []Place, act Act) (_ []Key, err error) {
	defer rows.Explain(&err, "resolve failed campaigns")
	if _, err := keepSets(ctx, tx, ""); err != nil {
		return nil, err
	}
	found, err := at(ctx, tx, places, act.validate(true))
	if err != nil {
		return nil, err
	}
	campaigns := map[string][]string{}
	for _, c := range found {
		campaigns[c.Group] = append(campaigns[c.Group], c.CampaignID)
	}
	for _, group := range slices.Sorted(maps.Keys(campaigns)) {
		if err := lease.Fence(ctx, tx, group, campaigns[group]); err != nil {
			return nil, err
		}
	}
	taken, err := take(ctx, tx, found)
	if err != nil {
		return nil, err
	}
	return settle(ctx, tx, taken, act)
}

// Unresolve takes back that event seq is left out. Each set of tables that has gone past the event
// applies the campaign anew, from scratch, and then holds what the event does; it may fail at the
// event again. Of a projection that is not registered only the resolution goes. [ErrNotResolved]
// says that there is none, [ErrNotResettable] that a set's rows cannot be deleted, so that the
// event cannot come to its place: roll tx back.
//
// It locks what [Resolve] does.
func Unresolve(ctx context.Context, tx pgx.Tx, key Key, seq int64, act Act) (err error) {
	defer rows.Explain(&err, "take back that event %d is resolved for %s", seq, key)
	if err := errors.Join(key.validate(), act.validate(true)); err != nil {
		return err
	}
	projection, group := base(key.Projection), ""
	groups, err := keepSets(ctx, tx, projection)
	if err != nil {
		return err
	}
	if len(groups) > 0 { // else no worker applies it
		group = groups[0]
		if err := lease.Fence(ctx, tx, group, []string{key.CampaignID}); err != nil {
			return err
		}
	}
	tag, err := tx.Exec(ctx, queryUnresolve, key.CampaignID, projection, seq, group, act.By, act.Reason)
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		return ErrNotResolved
	}
	sets, err := beyond(ctx, tx, []string{key.CampaignID}, []string{projection}, []int64{seq})
	if err != nil {
		return err
	}
	return beginAnew(ctx, tx, sets, act)
}

// keepSets keeps a projection's sets of tables, or those of all, from becoming others until tx
// ends, and answers their groups.
func keepSets(ctx context.Context, tx pgx.Tx, projection string) (groups []string, err error) {
	return rows.All(ctx, tx, pgx.RowTo[string], "", queryKeepSets, pgx.QueryExecModeCacheDescribe, base(projection))
}

// settle leaves out, for good, the events that pairs stand before. The caller has locked the pairs,
// and the registry's rows and the campaigns' leases before.
func settle(ctx context.Context, tx pgx.Tx, pairs []candidate, act Act) ([]Key, error) {
	if len(pairs) == 0 {
		return []Key{}, nil
	}
	campaigns, projections, seqs := columns(pairs)
	for i := range projections {
		projections[i] = base(projections[i])
	}
	sets, err := beyond(ctx, tx, campaigns, projections, seqs)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, queryInsertResolutions, campaigns, projections, seqs, act.By, act.Reason); err != nil {
		return nil, err
	}
	keys, err := write(ctx, tx, queryResolve, pairs, act)
	if err != nil {
		return nil, err
	}
	siblings, err := collect(ctx, tx, querySiblings, campaigns, projections, seqs)
	if err != nil {
		return nil, err
	}
	if _, err := write(ctx, tx, queryResolve, siblings, act); err != nil {
		return nil, err
	}
	return keys, beginAnew(ctx, tx, sets, act)
}

// applied is a set of tables that has gone past an event of a campaign.
type applied struct{ Group, Set, CampaignID string }

// beyond answers the sets of tables that have gone past the events.
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
