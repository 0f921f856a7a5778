package outbox_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestWalkWaitingAnswersEachCampaignOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	if err := outbox.Register(t.Context(), pool, "default"); err != nil {
		t.Fatal(err)
	}
	for i := range 7 {
		events := make([]journal.Event, i+1)
		for j := range events {
			events[j] = journal.Event{Type: "x", Payload: json.RawMessage(`{}`)}
		}
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := journal.Append(t.Context(), tx, fmt.Sprintf("c%d", i), journal.Any, events...)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	var seen []outbox.Waiting
	for group, campaign := "", ""; ; {
		page, err := outbox.WalkWaiting(t.Context(), pool, group, campaign, 3)
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, page...)
		if len(page) < 3 {
			break
		}
		group, campaign = page[2].Group, page[2].CampaignID
	}
	if len(seen) != 7 {
		t.Fatalf("%d campaigns wait, want 7: %v", len(seen), seen)
	}
	for i, w := range seen {
		if w.CampaignID != fmt.Sprintf("c%d", i) || w.Behind() != int64(i+1) || w.Held || w.Since.IsZero() {
			t.Errorf("campaign %d is %+v", i, w)
		}
	}
}
