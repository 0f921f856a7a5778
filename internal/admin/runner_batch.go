package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/publications"
)

const (
	moved  = "it has changed meanwhile, or a worker was writing it"
	walked = 1000 // campaigns per transaction
)

// signed adds the operation's number to the reason, for the logs of other packages.
func (o Operation) signed() string {
	return strings.TrimSpace(fmt.Sprintf("%s (operation %d)", o.Reason, o.ID))
}

func (r *Runner) onFailed(ctx context.Context, tx pgx.Tx, o Operation, items []Item) error {
	places := placesOf(items)
	do := failed.RequeuePlaces
	if o.Kind == OpResolve {
		do = failed.ResolvePlaces
	}
	keys, err := do(ctx, tx, places, failed.Act{By: o.By, Reason: o.signed()})
	if err != nil {
		return err
	}
	done := map[failed.Key]bool{}
	for _, k := range keys {
		done[k] = true
	}
	for i, p := range places {
		items[i].mark(done[p.Key])
	}
	return nil
}

func (r *Runner) onParked(ctx context.Context, tx pgx.Tx, o Operation, items []Item) error {
	do := publications.RetryKeys
	if o.Kind == OpResolveParked {
		do = publications.ResolveKeys
	}
	events := parkedOf(items)
	done, err := do(ctx, tx, events, publications.Act{By: o.By, Reason: o.signed()})
	if err != nil {
		return err
	}
	for i, e := range events {
		items[i].mark(done[e])
	}
	return nil
}

func placesOf(items []Item) []failed.Place {
	return slice.Of(items, func(i Item) failed.Place {
		return failed.Place{NextSeq: i.Seq, Key: failed.Key{Projection: i.Subject, CampaignID: i.CampaignID}}
	})
}

func parkedOf(items []Item) []publications.ParkedKey {
	return slice.Of(items, func(i Item) publications.ParkedKey {
		topic, name, _ := strings.Cut(i.Subject, "/")
		return publications.ParkedKey{
			Key: publications.Key{Topic: topic, Publisher: name}, CampaignID: i.CampaignID, Seq: i.Seq,
		}
	})
}

func (i *Item) mark(done bool) {
	i.Outcome = "done"
	if !done {
		i.Outcome, i.Detail = "skipped", moved
	}
}

// cursor is the progress of a walk over all campaigns.
type cursor struct {
	After    string `json:"after"`
	Repaired int64  `json:"repaired,omitempty"`
}

// walk does the next part of an operation on all campaigns of a group.
func walk(ctx context.Context, tx pgx.Tx, o Operation) (last bool, err error) {
	var c cursor
	if o.Progress != nil {
		err = json.Unmarshal(o.Progress, &c)
	}
	var n int64
	switch {
	case err != nil:
	case o.Kind == OpReplay:
		n, c.After, err = replaySome(ctx, tx, o, c.After)
	default:
		n, c.After, err = repairSome(ctx, tx, o, c.After)
		c.Repaired += n
	}
	if err != nil {
		return false, err
	}
	doc, err := json.Marshal(c)
	if err != nil {
		return false, err
	}
	_, err = tx.Exec(ctx, queryCount, o.ID, n, 0, 0, document(doc))
	return c.After == "", err
}

func replaySome(ctx context.Context, tx pgx.Tx, o Operation, after string) (n int64, next string, err error) {
	g, err := read[GroupReplay](o)
	if err != nil {
		return 0, "", err
	}
	return failed.ReplayAll(ctx, tx, g.Replay(), after, walked, failed.Act{By: o.By, Reason: o.signed()})
}

func repairSome(ctx context.Context, tx pgx.Tx, o Operation, after string) (n int64, next string, err error) {
	g, err := read[GapRepair](o)
	if err != nil {
		return 0, "", err
	}
	gaps, next, err := outbox.Gaps(ctx, tx, g.Group, after, walked)
	for i := 0; i < len(gaps) && err == nil; i++ {
		err = outbox.RepairGap(ctx, tx, gaps[i], o.By, o.signed())
	}
	return int64(len(gaps)), next, err
}
