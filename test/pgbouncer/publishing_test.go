package pgbouncer_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// TestWhatIsRefusedIsParkedRetriedAndResolvedInEveryExecMode sends every write of a relay and of
// operators through PgBouncer in transaction mode. Exec modes that PgBouncer does not support
// connect directly.
func TestWhatIsRefusedIsParkedRetriedAndResolvedInEveryExecMode(t *testing.T) {
	t.Parallel()
	for execMode, bounced := range map[string]bool{
		"cache_statement": false, "describe_exec": false,
		"cache_describe": true, "exec": true, "simple_protocol": true,
	} {
		t.Run("with_"+execMode, func(t *testing.T) {
			t.Parallel()
			direct := pgtest.New(t)
			var address string
			if bounced {
				address = startBouncer(t, direct, execMode)
			} else {
				address = inMode(t, direct, execMode)
			}
			p := &publishing{
				T: t, pool: tally.Pool(t, address, "relay", 12), direct: direct,
				all: publications.Key{Topic: "all", Publisher: "out"}, by: publications.Act{By: "anna", Reason: "a test"},
			}
			p.run()
			p.parks()
			p.bringsBack()
			p.moves()
			p.stopsAhead()
			p.keepsALog()
		})
	}
}

// inMode returns the address of a pool's server with an exec mode.
func inMode(t *testing.T, pool *pgxpool.Pool, execMode string) string {
	t.Helper()
	address, err := url.Parse(pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	query := address.Query()
	query.Set("default_query_exec_mode", execMode)
	address.RawQuery = query.Encode()
	return address.String()
}

// publishing is a relay with one pair and a sink that refuses events on demand.
type publishing struct {
	*testing.T
	pool, direct *pgxpool.Pool
	all          publications.Key
	by           publications.Act
	sink         memory.Sink
	lifted, down atomic.Bool
	gone         atomic.Bool
	stop         func()
}

func (p *publishing) run() {
	p.Helper()
	p.sink.Refuse = func(e publisher.Event) (error, bool) {
		if e.Seq != 2 || p.lifted.Load() || e.CampaignID != "again" && e.CampaignID != "never" {
			return nil, false
		}
		return errors.New("refused"), e.CampaignID == "never"
	}
	p.sink.Down = func() error {
		switch {
		case p.gone.Load():
			return publisher.Pause(errors.New("gone"))
		case p.down.Load():
			return memory.ErrDown
		}
		return nil
	}
	relay, err := publisher.New(publisher.Config{
		Pool: p.pool, Topics: []publisher.Topic{{Name: "all"}}, LeaseTTL: 3 * time.Second,
		PollInterval: 100 * time.Millisecond, NoListen: true,
		Publishers: []publisher.Publisher{{
			Name: "out", Sink: &p.sink, Topics: []string{"all"}, Attempts: 2, RetryBase: 20 * time.Millisecond,
			RetryMax: 50 * time.Millisecond, BackoffMax: 100 * time.Millisecond,
		}},
		Logger: slog.New(slog.NewTextHandler(p.Output(), nil)),
	})
	if err != nil {
		p.Fatal(err)
	}
	ctx, cancel := context.WithCancel(p.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			p.Error(err)
		}
	})
	p.Cleanup(p.stop)
}

// eventually waits until a query returns true.
func (p *publishing) eventually(what, sql string) {
	p.Helper()
	tally.Eventually(p.T, what, tally.Holds(p.direct, sql))
}

// arrived returns the seqs of a campaign's events at the sink.
func (p *publishing) arrived(campaign string) string {
	var seqs []int64
	for _, r := range p.sink.Received() {
		if r.CampaignID == campaign {
			seqs = append(seqs, r.Seq)
		}
	}
	return fmt.Sprint(seqs)
}

func (p *publishing) eventuallyArrived(want map[string]string) {
	p.Helper()
	for campaign, seqs := range want {
		tally.Eventually(p.T, campaign+" has arrived", func(context.Context) (bool, error) {
			return p.arrived(campaign) == seqs, nil
		})
	}
}

// parks has one event refused for good and another refused until its attempts are used up, then
// checks the parked rows.
func (p *publishing) parks() {
	p.Helper()
	for _, campaign := range []string{"again", "never", "well"} {
		tally.Append(p.T, p.pool, campaign, 1, 2, 3)
	}
	p.eventually("both are parked",
		"SELECT count(*) = 2 FROM tidemark.parked WHERE status = 'parked' AND holds AND seq = 2 AND attempt_count = CASE "+
			"campaign_id WHEN 'never' THEN 1 ELSE 2 END")
	p.eventually("the position is at the end", "SELECT position = 9 AND status = 'ACTIVE' FROM tidemark.readers")
	p.eventuallyArrived(map[string]string{"again": "[1]", "never": "[1]", "well": "[1 2 3]"})
	parked, err := publications.ListParked(p.Context(), p.pool,
		publications.ParkedFilter{Publisher: "out", MessagePattern: "^ref"})
	if err != nil || len(parked) != 2 || parked[0].Message != "refused" || parked[0].EventID == nil ||
		parked[0].FirstFailedAt == nil {
		p.Fatalf("parked are %+v, %v", parked, err)
	}
	if next, err := publications.ListParked(p.Context(), p.pool,
		publications.ParkedFilter{After: &parked[0]}); err != nil ||
		len(next) != 1 || next[0].CampaignID != parked[1].CampaignID {
		p.Errorf("behind %s is %+v, %v", parked[0].CampaignID, next, err)
	}
	if walked, _, err := publications.WalkParked(p.Context(), p.pool, publications.ParkedFilter{Status: "parked"},
		&publications.ParkedPlace{Topic: "all", Publisher: "out", CampaignID: "b"}, 10); err != nil || len(walked) != 1 {
		p.Errorf("walked to %+v, %v", walked, err)
	}
	if n, err := publications.CountParked(p.Context(), p.pool,
		publications.ParkedFilter{CampaignID: "again", Seq: 2}); err != nil || n != 1 {
		p.Errorf("%d are meant, %v", n, err)
	}
	if list, err := publications.List(p.Context(), p.pool, p.all); err != nil || len(list) != 1 || list[0].Parked != 2 ||
		list[0].Position != 9 || list[0].Published != 5 || list[0].Holder == "" {
		p.Errorf("the pair is %+v, %v", list, err)
	}
}

// bringsBack resolves one parked event and retries the other, first by a filter, then by its key.
// Then the sink goes down and recovers.
func (p *publishing) bringsBack() {
	p.Helper()
	if n, err := publications.Resolve(p.Context(), p.pool, publications.ParkedFilter{CampaignID: "never"},
		p.by); err != nil ||
		n != 1 {
		p.Fatalf("resolved %d, %v", n, err)
	}
	p.eventuallyArrived(map[string]string{"never": "[1 3]"})
	if n, err := publications.Retry(p.Context(), p.pool, publications.ParkedFilter{CampaignID: "again"},
		p.by); err != nil ||
		n != 1 {
		p.Fatalf("retried %d, %v", n, err)
	}
	p.eventually("it is parked again",
		"SELECT count(*) = 1 FROM tidemark.parked WHERE status = 'parked' AND attempt_count = 2 AND last_failed_at > "+
			"first_failed_at")
	p.lifted.Store(true)
	key := publications.ParkedKey{Key: p.all, CampaignID: "again", Seq: 2}
	err := pgx.BeginFunc(p.Context(), p.pool, func(tx pgx.Tx) error {
		done, err := publications.RetryKeys(p.Context(), tx, []publications.ParkedKey{key}, p.by)
		if !done[key] {
			err = cmp.Or(err, errors.New("nothing was retried"))
		}
		return err
	})
	if err != nil {
		p.Fatal(err)
	}
	p.eventuallyArrived(map[string]string{"again": "[1 2 3]"})
	p.eventually("nothing is parked", "SELECT count(*) = 0 FROM tidemark.parked")
	p.down.Store(true)
	tally.Append(p.T, p.pool, "well", 4)
	p.eventually("the pair says how it fails",
		"SELECT error_count > 1 AND last_error = 'the other side is down' AND next_attempt_at > last_error_at FROM "+
			"tidemark.readers")
	p.down.Store(false)
	p.eventually("it has forgotten it", "SELECT error_count = 0 AND position = 10 FROM tidemark.readers")
}

// moves pauses, resumes, resets and replays the pair.
func (p *publishing) moves() {
	p.Helper()
	p.gone.Store(true)
	tally.Append(p.T, p.pool, "well", 5)
	p.eventually("the pair is paused",
		"SELECT status = 'PAUSED' AND reason = 'gone' AND expires_at = '-infinity' FROM tidemark.readers")
	p.gone.Store(false)
	back := int64(9)
	dry, err := publications.Reset(p.Context(), p.pool, p.all, publications.ResetTo{Time: time.Unix(0, 0), DryRun: true},
		p.by)
	if err != nil || dry.To != 0 || dry.Sent != 10 {
		p.Fatalf("a reset would do %+v, %v", dry, err)
	}
	if err := publications.Resume(p.Context(), p.pool, p.all, p.by); err != nil {
		p.Fatal(err)
	}
	p.eventuallyArrived(map[string]string{"well": "[1 2 3 4 5]"})
	p.eventually("the position is at the end", "SELECT position = 11 FROM tidemark.readers")
	if err := publications.Suspend(p.Context(), p.pool, p.all, time.Hour, p.by); err != nil {
		p.Fatal(err)
	}
	p.eventually("the pair is given back",
		"SELECT status = 'PAUSED' AND paused_until < 'infinity' AND expires_at = '-infinity' FROM tidemark.readers")
	if reset, err := publications.Reset(p.Context(), p.pool, p.all, publications.ResetTo{Position: &back},
		p.by); err != nil ||
		reset.From != 11 || reset.To != 9 || reset.Sent != 2 {
		p.Fatalf("it was reset by %+v, %v", reset, err)
	}
	p.eventuallyArrived(map[string]string{"well": "[1 2 3 4 5 4 5]"})
	done, err := publisher.Replay(p.Context(), p.pool, publisher.ReplayRequest{
		Topic: publisher.Topic{Name: "all"}, To: publisher.Publisher{Name: "out", Sink: &p.sink}, CampaignID: "well", From: 5,
		By: p.by.By, Reason: p.by.Reason,
	})
	if err != nil || done.Sent != 1 || p.arrived("well") != "[1 2 3 4 5 4 5 5]" {
		p.Errorf("replayed %+v, %v, and what came is %s", done, err, p.arrived("well"))
	}
}

// stopsAhead sets the pair to a position that the journal has never handed out.
func (p *publishing) stopsAhead() {
	p.Helper()
	tally.Exec(p.T, p.direct,
		"UPDATE tidemark.readers SET position = 1000, generation = generation + 1, expires_at = '-infinity'")
	p.eventually("the pair has failed",
		"SELECT status = 'FAILED' AND reason LIKE 'position 1000 is ahead of the journal%' FROM tidemark.readers")
}

// keepsALog reads the log of acts and prunes it.
func (p *publishing) keepsALog() {
	p.Helper()
	want := []string{
		publications.ActReplayed, publications.ActReplaying, publications.ActReset, publications.ActPaused,
		publications.ActResumed, publications.ActRetried, publications.ActRetried, publications.ActResolved,
	}
	records, err := publications.Log(p.Context(), p.pool, publications.LogFilter{
		Publisher: "out",
		Acts:      publications.Acts(),
	})
	var acts []string
	for _, r := range records {
		acts = append(acts, r.Act)
	}
	if err != nil || !slices.Equal(acts, want) {
		p.Errorf("the log has %v, %v, want %v", acts, err, want)
	}
	if i := slices.Index(acts, publications.ActReset); i >= 0 &&
		string(records[i].Detail) != `{"to": 9, "from": 11, "forgotten": 0}` {
		p.Errorf("of the reset the log has %s", records[i].Detail)
	}
	tally.Exec(p.T, p.direct, "UPDATE tidemark.operator_log_head SET keep = '0'")
	if n, err := publications.PruneLog(p.Context(), p.pool, time.Microsecond, 5); err != nil || n != 5 {
		p.Errorf("pruned %d records of 5, %v", n, err)
	}
	p.stop()
	p.eventually("the relay has said that it is gone", "SELECT count(*) = 0 FROM tidemark.relays")
}
