package feed_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestReadGroupReadsWhatAClaimHasLeft(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	mustAppend(t, pool, "a", noted(5)...)
	mustAppend(t, pool, "b", noted(3)...)
	campaigns, after := []string{"b", "nobody", "a"}, []int64{1, 0, 2}
	for _, small := range []bool{false, true} {
		batch := &pgx.Batch{}
		batch.Queue(`SELECT set_config('tidemark.claimed_campaigns', '{b,nobody,a}', false),
			set_config('tidemark.claimed_checkpoints', '{1,0,2}', false)`)
		r := feed.GroupRead{
			Claimed: func(i int) (string, int64) { return campaigns[i], after[i] }, Events: 9,
			Bytes: 1 << 20, Small: small,
		}
		var read, counted, hashed []string
		feed.ReadGroup(batch, r, func(i int, e *event.Event, _ int) {
			read = append(read, fmt.Sprint(i, e.CampaignID, e.Seq))
		})
		feed.CountGroup(batch, r, func(i, events int) { counted = append(counted, fmt.Sprint(i, events)) }, nil)
		feed.HashGroup(batch, r, func(i, events int, _ int64) { hashed = append(hashed, fmt.Sprint(i, events)) }, nil)
		if err := pool.SendBatch(t.Context(), batch).Close(); err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(read, counted, hashed), "[0b2 0b3 2a3 2a4 2a5] [0 2 2 3] [0 2 2 3]"; got != want {
			t.Errorf("small %v: got %s, want %s", small, got, want)
		}
	}
}
