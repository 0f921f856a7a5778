package archive_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// text has all that a reader sees of an event.
func text(e *event.Event) string {
	return fmt.Sprintf("%s %d %d %s %s %d %s %s %s %s %v %s %s %s %s", e.CampaignID, e.Seq, e.Position, e.ID, e.Type, e.Version,
		e.Intent, e.AggregateType, e.AggregateID, e.Actor, e.Tags, e.Payload, e.Metadata, e.OccurredAt, e.RecordedAt)
}

// all reads the journal by position in windows of up to so many events.
func (s *shop) all(db event.Querier, after int64, window func() int) (events []string, err error) {
	floor, err := feed.Floor(s.t.Context(), s.Pool)
	for err == nil && after < floor {
		var page []event.Event
		w := event.Window{After: after, Floor: floor, Events: window(), Bytes: 4 << 20, Small: rand.IntN(2) == 0}
		if page, after, err = feed.ReadWindow(s.t.Context(), db, w); err == nil && len(page) == 0 && after < floor {
			err = fmt.Errorf("no events up to %d, before the floor", after)
		}
		for i := range page {
			events = append(events, text(&page[i]))
		}
	}
	return events, err
}

func some() int { return 1 + rand.IntN(40) }

// scattered is a shop whose campaigns grow side by side, over many ranges of positions.
func scattered(t *testing.T) *shop {
	t.Helper()
	s := newShop(t)
	ids := s.ids(30)
	for range 12 {
		s.exec(`SELECT tidemark.append_all(jsonb_agg(jsonb_build_object('campaign_id', id, 'events', jsonb_build_array(
				jsonb_build_object('type', 'ordered', 'payload', jsonb_build_object('n', ascii(right(id, 1))),
					'tags', CASE WHEN id LIKE '%7' THEN '["a"]'::jsonb END) - CASE WHEN id LIKE '%7' THEN '' ELSE 'tags' END))))
			FROM unnest($1::text[]) AS u (id)`, ids)
		s.exec(`SELECT setval('tidemark.journal_position', last_value + 1 + (random() * 9000)::int) FROM tidemark.journal_position`)
	}
	s.closeCampaigns(0, ids[:25]...)
	return s
}

func TestEventsAreReadByPositionThroughTheArchiveAsBefore(t *testing.T) {
	t.Parallel()
	s := scattered(t)
	want, err := s.all(s.Pool, 0, some)
	if err != nil || len(want) != 385 {
		t.Fatalf("%d events, %v", len(want), err)
	}
	for _, id := range s.ids(20) { // an object each
		s.archive(archive.Request{Campaigns: []string{id}, By: "anna", Reason: "a test"})
	}
	s.archive(closed) // one object with the others
	s.restore(archive.RestoreRequest{Campaigns: []string{"c003", "c021"}})
	db := archive.NewReader(s.store, 0).Reading(s.Pool)
	for range 5 {
		if got, err := s.all(db, 0, some); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%d events\n%s\n%v, want %d\n%s", len(got), strings.Join(got, "\n"), err, len(want), strings.Join(want, "\n"))
		}
	}
	for i := 0; i < len(want); i += 7 { // from anywhere, each time by a new reader
		var campaign string
		var seq, position int64
		if _, err := fmt.Sscan(want[i], &campaign, &seq, &position); err != nil {
			t.Fatal(err)
		}
		db := archive.NewReader(s.store, 0).Reading(s.Pool)
		if got, err := s.all(db, position, func() int { return 1000 }); err != nil || !slices.Equal(got, want[i+1:]) {
			t.Fatalf("after %d: %d events, %v, want %d", position, len(got), err, len(want)-i-1)
		}
		if e, err := feed.At(t.Context(), db, position); err != nil || text(&e) != want[i] {
			t.Fatalf("at %d: %s, %v", position, text(&e), err)
		}
	}
	if _, err := feed.At(t.Context(), db, math.MaxInt32); !errors.Is(err, event.ErrNotFound) {
		t.Errorf("at a place without an event: %v", err)
	}
}

// What was restored, erased and archived again must not come back from the object that had it first.
func TestOfAnEventInTwoObjectsTheLastCounts(t *testing.T) {
	t.Parallel()
	s := scattered(t)
	s.archive(closed)
	db := archive.NewReader(s.store, 0).Reading(s.Pool)
	if _, err := s.all(db, 0, some); err != nil {
		t.Fatal(err)
	}
	s.restore(archive.RestoreRequest{Campaigns: []string{"c001", "c002"}})
	s.exec(`INSERT INTO tidemark.erasures (request, actor, reason) VALUES (sha256(''), 'anna', 'asked')`)
	s.exec(`SELECT tidemark.erase(1, 1, 'c001', NULL, 500)`)
	s.exec(`SELECT tidemark.end_erasure(1, 1)`)
	want, err := s.all(archive.NewReader(s.store, 0).Reading(s.Pool), 0, some)
	if err != nil {
		t.Fatal(err)
	}
	if done := s.archive(archive.Request{Campaigns: []string{"c001"}, By: "anna", Reason: "again"}); done.Campaigns != 1 {
		t.Fatalf("archived %+v", done)
	}
	for name, db := range map[string]event.Querier{
		"the reader of before": db, "a new one": archive.NewReader(s.store, 0).Reading(s.Pool),
	} {
		if got, err := s.all(db, 0, some); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %d events, %v\n%s\nwant %d\n%s", name, len(got), err, strings.Join(got, "\n"), len(want),
				strings.Join(want, "\n"))
		}
	}
}

func TestNoEventIsMissedWhileCampaignsAreArchivedAndRestored(t *testing.T) {
	t.Parallel()
	s := scattered(t)
	want, err := s.all(s.Pool, 0, some)
	if err != nil {
		t.Fatal(err)
	}
	db := archive.NewReader(s.store, 0).Reading(s.Pool)
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	g.Go(func() error {
		for ctx.Err() == nil {
			campaign := fmt.Sprintf("c%03d", rand.IntN(25))
			r := archive.Request{Campaigns: []string{campaign}, By: "anna", Reason: "a test"}
			if _, err := archive.Run(ctx, s.Pool, s.store, r); err != nil && ctx.Err() == nil {
				return err
			}
			if rand.IntN(3) == 0 {
				_, err := archive.Restore(ctx, s.Pool, s.store, archive.RestoreRequest{All: true, Rate: 1000})
				if err != nil && ctx.Err() == nil {
					return err
				}
			}
		}
		return nil
	})
	for range 40 {
		if got, err := s.all(db, 0, some); !errors.Is(err, event.ErrArchived) && (err != nil || !slices.Equal(got, want)) {
			t.Errorf("%d events, want %d, %v", len(got), len(want), err)
			break
		}
	}
	cancel()
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

func TestAReadByPositionNamesAnObjectThatIsMissing(t *testing.T) {
	t.Parallel()
	s := scattered(t)
	s.archive(closed)
	object := s.value(`SELECT object FROM tidemark.archives`)
	path := filepath.Join(s.folder, object)
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	db := archive.NewReader(s.store, 0).Reading(s.Pool)
	if got, err := s.all(db, 0, some); !errors.Is(err, archive.ErrObject) || !errors.Is(err, event.ErrArchived) ||
		!strings.Contains(err.Error(), object) || len(got) > 0 {
		t.Errorf("%d events, %v", len(got), err)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	if got, err := s.all(db, 0, some); err != nil || len(got) != 385 {
		t.Errorf("%d events, %v", len(got), err)
	}
}

type sink struct {
	mu        sync.Mutex
	campaigns map[string][]int64
}

func (s *sink) Name() string { return "sink" }

func (s *sink) Publish(_ context.Context, events []publisher.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range events {
		s.campaigns[events[i].CampaignID] = append(s.campaigns[events[i].CampaignID], events[i].Seq)
	}
	return nil
}

func TestANewPublisherSendsArchivedEvents(t *testing.T) {
	t.Parallel()
	s := scattered(t)
	s.archive(closed)
	sink := &sink{campaigns: map[string][]int64{}}
	relay, err := publisher.New(publisher.Config{
		Pool: s.Pool, Topics: []publisher.Topic{{Name: "all"}}, NoListen: true, PageEvents: 50,
		Publishers: []publisher.Publisher{{Name: "new", Sink: sink, Topics: []string{"all"}}}, PollInterval: 100 * time.Millisecond,
		Archive: archive.NewReader(s.store, 0),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	s.within("all events are sent", func() bool {
		sink.mu.Lock()
		defer sink.mu.Unlock()
		n := 0
		for _, seqs := range sink.campaigns {
			n += len(seqs)
		}
		return n == 385
	})
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for campaign, seqs := range sink.campaigns {
		for i, seq := range seqs {
			if seq != int64(i+1) {
				t.Errorf("%s: %v", campaign, seqs)
				break
			}
		}
	}
}

// totals is the read model across campaigns.
func (s *shop) totals() string {
	s.t.Helper()
	return s.value(`SELECT string_agg(key || doc, ' ' ORDER BY key) FROM tidemark_views.totals`)
}

func TestAReadModelAcrossCampaignsIsRebuiltThroughTheArchive(t *testing.T) {
	t.Parallel()
	s, reader, _ := archived(t)
	before := s.totals()
	p := s.projector("default", reader, projections(t)...)
	s.work(p)
	sample, none := 100, time.Duration(0)
	if _, err := rebuild.StartRebuild(t.Context(), s.Pool, "totals", rebuild.Options{Keep: &none, Verify: &sample},
		failed.Act{By: "ada", Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
	s.within("replaced tables are dropped", func() bool {
		return rebuild.DropReplaced(t.Context(), s.Pool) == nil && s.value(`SELECT count(*) FROM tidemark.projections`) == "4" &&
			s.value(`SELECT count(*) FROM tidemark.rebuilds`) == "0"
	})
	if after := s.totals(); after != before || before == "" {
		t.Errorf("the read model was\n%s\nand is\n%s", before, after)
	}
	if report, err := p.Verify(t.Context(), lookback.VerifyRequest{Projection: "totals", All: true}); err != nil ||
		report.Differing != 0 || report.Events != 93 {
		t.Errorf("verify: %+v, %v", report, err)
	}
	position := s.value(`SELECT min(last_position) - 1 FROM tidemark.archives`)
	at, err := strconv.ParseInt(position, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	state, err := p.AsOf(t.Context(), "totals", `{"n": 3}`, at)
	if text := fmt.Sprintf("%s", state.Tables); err != nil || !strings.Contains(text, `{"n": 18, `) {
		t.Errorf("as of position %d: %s, %v", at, text, err)
	}
}

func TestKeysAreReplayedWhileCampaignsAreRestored(t *testing.T) {
	t.Parallel()
	s := scattered(t)
	reader := archive.NewReader(s.store, 1)
	s.work(s.projector("default", reader, projections(t)...))
	s.idle("4")
	s.within("all is applied", func() bool {
		return s.value(`SELECT bool_and(position >= (SELECT max(position) FROM tidemark.journal)) FROM tidemark.readers`) == "true"
	})
	before := s.totals()
	var keys []string
	if err := s.QueryRow(t.Context(), `SELECT array_agg(key) FROM tidemark_views.totals`).Scan(&keys); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		archives := i%2 == 0
		if archives {
			s.archiveWithout()
		}
		if err := s.append(func(ctx context.Context, tx pgx.Tx) error {
			_, err := failed.Replay(ctx, tx, failed.ReplayRequest{Group: "default", Projection: "totals", Campaigns: keys},
				failed.Act{By: "ada", Reason: "a test"})
			return err
		}, pgx.TxOptions{}); err != nil {
			t.Fatal(err)
		}
		if archives { // none is archived while a key has it before itself
			s.restore(archive.RestoreRequest{All: true})
		}
		s.within("the keys have caught up", func() bool { return s.value(`SELECT count(*) FROM tidemark.failed`) == "0" })
		if after := s.totals(); after != before || before == "" {
			t.Errorf("%d: the read model was\n%s\nand is\n%s", i, before, after)
		}
	}
}

// TestEventsOfALostArchiveAreDropped reads archived events by position, loses them with their archive,
// and reads on with the same reader.
func TestEventsOfALostArchiveAreDropped(t *testing.T) {
	t.Parallel()
	for name, before := range map[string][]string{"nothing else is archived": nil, "others are": {"old"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.exec(`SELECT tidemark.keep_history()`)
			if len(before) > 0 {
				s.closeCampaigns(2, before...)
				s.archive(closed)
			}
			kept := s.value(`SELECT last_value FROM tidemark.journal_position`)
			s.closeCampaigns(3, "lost")
			if r := s.archive(closed); r.Campaigns != 1 {
				t.Fatalf("archived %+v", r)
			}
			reader := archive.NewReader(s.store, 0)
			if events, err := s.all(reader.Reading(s.Pool), 0, some); err != nil || len(events) != 4+3*len(before) {
				t.Fatalf("%d events are read: %v", len(events), err)
			}
			if _, err := s.Exec(t.Context(), fmt.Sprintf(`BEGIN; SET LOCAL session_replication_role = replica;
				DELETE FROM tidemark.journal WHERE position > %[1]s; DELETE FROM tidemark.archives WHERE last_position > %[1]s;
				DELETE FROM tidemark.incarnation; SELECT setval('tidemark.journal_position', %[1]s + 50); COMMIT`, kept),
				pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Fatal(err)
			}
			s.exec(`SELECT tidemark.keep_history()`)
			s.closeCampaigns(1, "new")
			want, err := s.all(archive.NewReader(s.store, 0).Reading(s.Pool), 0, some)
			if err != nil || len(want) != 2+3*len(before) {
				t.Fatalf("a new reader has %d events: %v", len(want), err)
			}
			if got, err := s.all(reader.Reading(s.Pool), 0, some); err != nil || !slices.Equal(got, want) {
				t.Errorf("the reader of before has %d events: %v, %v", len(got), got, err)
			}
		})
	}
}

// TestEachChangeOfArchivesChangesTheMark has each act, and acts that commit in another order than they began.
func TestEachChangeOfArchivesChangesTheMark(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.closeCampaigns(1, s.ids(12)...)
	seen := map[string]string{}
	changed := func(what string) {
		t.Helper()
		mark := s.value(`SELECT tidemark.archive_mark(0, 9223372036854775807)`)
		if before, known := seen[mark]; known && mark != "0" {
			t.Errorf("after %q the mark is as after %q", what, before)
		}
		seen[mark] = what
		if again := s.value(`SELECT tidemark.archive_mark(0, 9223372036854775807)`); again != mark {
			t.Errorf("after %q the mark is %s, then %s", what, mark, again)
		}
	}
	archives := func(ids ...string) { s.archive(archive.Request{Campaigns: ids, By: "anna", Reason: "a test"}) }
	restores := func(ids ...string) { s.restore(archive.RestoreRequest{Campaigns: ids}) }
	for range 2 { // the second time into the same objects
		archives("c000", "c001", "c002")
		changed("an archive")
		archives("c003")
		changed("another")
		restores("c001")
		changed("a restore of one")
		restores("c000", "c002")
		changed("a restore of the rest")
		archives("c001")
		changed("an object that had no campaigns any more")
		restores("c001", "c003")
		changed("a restore from two objects")
	}
	archives("c004")
	s.exec(`INSERT INTO tidemark.erasures (request, actor, reason) VALUES (sha256(''), 'anna', 'asked')`)
	restores("c004")
	changed("a restore for an erasure")
	s.exec(`SELECT tidemark.erase(1, 1, 'c004', NULL, 500)`)
	s.exec(`SELECT tidemark.end_erasure(1, 1)`)
	archives("c004")
	changed("lines that were erased")

	lines := s.lines("c005")
	archives("c005")
	archives("c006")
	changed("two archives")
	late, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = late.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := late.Exec(t.Context(), `SELECT tidemark.restore('{c005}', ARRAY[$1])`, lines); err != nil {
		t.Fatal(err)
	}
	restores("c006")
	changed("a restore while another is open")
	archives("c007")
	changed("an archive while a restore is open")
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	changed("the restore that began first")

	s.exec(`UPDATE tidemark.archives SET changed_at = changed_at + interval '1 year'`) // as by a clock that was ahead
	changed("a clock that was ahead")
	restores("c007")
	changed("a restore by the clock of today")
}
