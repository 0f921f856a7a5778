package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

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
	places := make([]failed.Place, len(items))
	for i, item := range items {
		places[i] = failed.Place{NextSeq: item.Seq, Key: failed.Key{
			Projection: item.Subject,
			CampaignID: item.CampaignID,
		}}
	}
	return places
}

func parkedOf(items []Item) []publications.ParkedKey {
	events := make([]publications.ParkedKey, len(items))
	for i, item := range items {
		topic, name, _ := strings.Cut(item.Subject, "/")
		events[i] = publications.ParkedKey{
			Key: publications.Key{Topic: topic, Publisher: name}, CampaignID: item.CampaignID,
			Seq: item.Seq,
		}
	}
	return events
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
	Looked   int64  `json:"campaigns,omitempty"` // checked
	Repaired int64  `json:"repaired,omitempty"`
}

func (o Operation) cursor() (c cursor, err error) {
	if o.Progress != nil {
		err = json.Unmarshal(o.Progress, &c)
	}
	return c, err
}

func (r *Runner) replaySome(ctx context.Context, tx pgx.Tx, o Operation) (bool, error) {
	g, err := read[GroupReplay](o)
	if err != nil {
		return false, err
	}
	c, err := o.cursor()
	if err != nil {
		return false, err
	}
	n, next, err := failed.ReplayAll(ctx, tx, g.Replay(), c.After, walked, failed.Act{By: o.By, Reason: o.signed()})
	if err != nil {
		return false, err
	}
	c.After = next
	return next == "", r.advance(ctx, tx, o, n, c)
}

func (r *Runner) repairSome(ctx context.Context, tx pgx.Tx, o Operation) (bool, error) {
	g, err := read[GapRepair](o)
	if err != nil {
		return false, err
	}
	c, err := o.cursor()
	if err != nil {
		return false, err
	}
	gaps, next, err := outbox.Gaps(ctx, tx, g.Group, c.After, walked)
	if err != nil {
		return false, err
	}
	for _, gap := range gaps {
		if err := outbox.RepairGap(ctx, tx, gap, o.By, o.signed()); err != nil {
			return false, err
		}
	}
	c.After, c.Repaired = next, c.Repaired+int64(len(gaps))
	return next == "", r.advance(ctx, tx, o, int64(len(gaps)), c)
}

func (r *Runner) advance(ctx context.Context, tx pgx.Tx, o Operation, n int64, c cursor) error {
	doc, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, queryCount, o.ID, n, 0, 0, document(doc))
	return err
}
