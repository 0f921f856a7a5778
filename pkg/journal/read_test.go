package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestReadsGoOverManyPagesAndStopWhereTheyAreTold(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for range 4 {
		mustAppend(t, pool, "a", noted(400)...)
		mustAppend(t, pool, "b", noted(1)...)
	}
	var seqs []int64
	for e, err := range journal.ReadCampaign(t.Context(), pool, "a", 100) {
		if err != nil || e.CampaignID != "a" {
			t.Fatalf("got %+v, %v", e, err)
		}
		seqs = append(seqs, e.Seq)
	}
	if len(seqs) != 1500 || seqs[0] != 101 || !slices.IsSorted(seqs) {
		t.Errorf("got %d events of the campaign, from %d", len(seqs), seqs[0])
	}
	var positions []int64
	for e, err := range journal.ReadAll(t.Context(), pool, 399) {
		if err != nil {
			t.Fatal(err)
		}
		positions = append(positions, e.Position)
		if e.Position == 1200 {
			break
		}
	}
	if len(positions) != 801 || positions[0] != 400 || !slices.IsSorted(positions) {
		t.Errorf("got %d events, from %d", len(positions), positions[0])
	}
	for e, err := range journal.ReadCampaign(t.Context(), pool, "nobody", 0) {
		t.Errorf("a campaign without events has %+v, %v", e, err)
	}
	for e, err := range journal.ReadAll(t.Context(), pool, 1604) {
		t.Errorf("after the last event comes %+v, %v", e, err)
	}
	for e, err := range journal.ReadAll(t.Context(), pool, 1<<40) {
		if reset, beyond := errors.AsType[*event.ResetError](err); !beyond || reset.Go.Position != 1604 {
			t.Errorf("beyond the end comes %+v, %v", e, err)
		}
	}
}

func TestAnEventThatIsNotThereIsNotFound(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	mustAppend(t, pool, "c", noted(1)...)
	if _, err := journal.Get(t.Context(), pool, "c", 2); !errors.Is(err, event.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if _, err := journal.Find(t.Context(), pool, "c", uuid.New()); !errors.Is(err, event.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestReadsEndWithTheErrorThatEndsThem(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	mustAppend(t, pool, "c", noted(3)...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, read := range map[string]func(func(event.Event, error) bool){
		"campaign": journal.ReadCampaign(ctx, pool, "c", 0),
		"all":      journal.ReadAll(ctx, pool, 0),
	} {
		n := 0
		for _, err := range read {
			if n++; !errors.Is(err, context.Canceled) || n > 1 {
				t.Errorf("%s: value %d has error %v", name, n, err)
			}
		}
	}
}

func TestTheFloorIsRefusedToOldSnapshots(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		err := pgx.BeginTxFunc(t.Context(), pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
			for _, err := range journal.ReadAll(t.Context(), tx, 0) {
				return err
			}
			return nil
		})
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != "TM008" {
			t.Errorf("%s: got %v", level, err)
		}
	}
}

func TestReadGroupReadsEachCampaignsPartWithinItsBounds(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const kib = 1 << 10
	big := event.Event{Type: "big", Payload: []byte(`{"a": "` + strings.Repeat("x", 2*kib) + `"}`)}
	mustAppend(t, pool, "a", noted(5)...)
	mustAppend(t, pool, "b", big, big, big)
	mustAppend(t, pool, "c", noted(2)...)
	read := func(r feed.GroupRead) (got []string) {
		batch := &pgx.Batch{}
		feed.ReadGroup(batch, r, func(campaign int, e *event.Event, bytes int) {
			if e.CampaignID != r.CampaignIDs[campaign] || (e.Type == "big") != (bytes > 2*kib) {
				t.Errorf("event %+v of %d bytes was handed out as campaign %d", e, bytes, campaign)
			}
			got = append(got, fmt.Sprint(e.CampaignID, e.Seq))
		})
		if err := pool.SendBatch(t.Context(), batch).Close(); err != nil {
			t.Fatal(err)
		}
		return got
	}
	const all = 1 << 40
	campaigns := []string{"c", "a", "nobody", "b"}
	for name, test := range map[string]struct {
		read feed.GroupRead
		want []string
	}{
		"everything": {feed.GroupRead{
			CampaignIDs: campaigns, After: []int64{0, 2, 0, 1},
			Until: []int64{all, 4, all, all}, Events: 100, Bytes: all,
		}, []string{"c1", "c2", "a3", "a4", "b2", "b3"}},
		"up to a number": {feed.GroupRead{
			CampaignIDs: campaigns, After: make([]int64, 4),
			Until: []int64{all, all, all, all}, Events: 4, Bytes: all,
		}, []string{"c1", "c2", "a1", "a2"}},
		"up to a size": {feed.GroupRead{
			CampaignIDs: []string{"b", "a"}, After: make([]int64, 2),
			Until: []int64{all, all}, Events: 100, Bytes: 3 * kib,
		}, []string{"b1", "b2"}},
		"one, however large": {feed.GroupRead{
			CampaignIDs: []string{"b"}, After: []int64{2}, Until: []int64{all},
			Events: 100, Bytes: 1,
		}, []string{"b3"}},
		"a campaign at its end": {feed.GroupRead{
			CampaignIDs: []string{"c"}, After: []int64{2}, Until: []int64{all},
			Events: 100, Bytes: all,
		}, nil},
		"a campaign twice": {feed.GroupRead{
			CampaignIDs: []string{"c", "c"}, After: []int64{1, 0},
			Until: []int64{all, 1}, Events: 100, Bytes: all,
		}, []string{"c2", "c1"}},
		"a place beyond the head": {feed.GroupRead{
			CampaignIDs: []string{"c"}, After: []int64{9}, Until: []int64{5},
			Events: 100, Bytes: all,
		}, nil},
	} {
		for _, test.read.Small = range []bool{false, true} {
			if got := read(test.read); !slices.Equal(got, test.want) {
				t.Errorf("%s, small %v: got %v, want %v", name, test.read.Small, got, test.want)
			}
		}
	}
}

func TestReadGroupReadsWhatGetReads(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	mustAppend(t, pool, "c", event.Event{Type: "bare"}, event.Event{
		Type: "full", Version: 3, Intent: event.AuditOnly, AggregateType: "seat", AggregateID: "7", Actor: "ann",
		Tags:    []string{"a", "b"},
		Payload: []byte(`{"n": 1}`), Metadata: []byte(`{"m": 2}`),
		OccurredAt: time.Date(1999, 12, 31, 23, 59, 59, 123456000, time.UTC),
	})
	for _, small := range []bool{false, true} {
		batch, n := &pgx.Batch{}, 0
		feed.ReadGroup(batch, feed.GroupRead{
			CampaignIDs: []string{"c"}, After: []int64{0}, Until: []int64{9},
			Events: 9, Bytes: 1 << 20, Small: small,
		}, func(_ int, e *event.Event, _ int) {
			n++
			want, err := journal.Get(t.Context(), pool, "c", e.Seq)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := marshal(t, *e), marshal(t, want); got != want {
				t.Errorf("small %v: got %s, want %s", small, got, want)
			}
		})
		if err := pool.SendBatch(t.Context(), batch).Close(); err != nil || n != 2 {
			t.Errorf("small %v: read %d events, %v", small, n, err)
		}
	}
}

func marshal(t *testing.T, e event.Event) string {
	t.Helper()
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestCountGroupCountsWhatReadGroupReads(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	mustAppend(t, pool, "a", noted(5)...)
	mustAppend(t, pool, "b", noted(3)...)
	campaigns := []string{"b", "nobody", "a", "b"}
	for limit := 1; limit < 12; limit++ {
		r := feed.GroupRead{
			CampaignIDs: campaigns, After: []int64{0, 0, 2, 1}, Until: []int64{9, 9, 4, 9}, Events: limit,
			Bytes: 1 << 20,
		}
		var read, counted [4]int
		batch := &pgx.Batch{}
		feed.ReadGroup(batch, r, func(campaign int, _ *event.Event, _ int) { read[campaign]++ })
		feed.CountGroup(batch, r, func(campaign, events int) { counted[campaign] += events }, nil)
		var hashed [4]int
		feed.HashGroup(batch, r, func(campaign, events int, _ int64) { hashed[campaign] += events }, nil)
		if err := pool.SendBatch(t.Context(), batch).Close(); err != nil {
			t.Fatal(err)
		}
		if read != counted || read != hashed {
			t.Errorf("up to %d events: read %v, counted %v, hashed %v", limit, read, counted, hashed)
		}
	}
}
