package archive_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-go/tidemark/internal/ndjson"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/ledger"
	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// TestWhateverWasDoneToArchivesReadersSeeTheSameEvents does each act on a journal of its own, and reads
// it in each way.
func TestWhateverWasDoneToArchivesReadersSeeTheSameEvents(t *testing.T) {
	t.Parallel()
	archives, restores := func(s *shop) { s.archive(closed) }, func(s *shop) { s.restore(archive.RestoreRequest{All: true}) }
	most, some := func(s *shop) { s.archiveWithout("early", "late") }, func(s *shop) { s.restoreOnly("c2", "early") }
	twice, killed := func(s *shop) { s.archiveTwiceAtOnce("early", "late") }, func(s *shop) { s.archiveKilled() }
	for name, acts := range map[string][]func(s *shop){
		"archived":                      {archives},
		"archived in part":              {most},
		"restored":                      {archives, restores},
		"restored in part":              {archives, some},
		"restored in part, and again":   {archives, some, archives},
		"again":                         {archives, restores, archives},
		"again, with more":              {most, restores, archives},
		"again, with fewer":             {archives, restores, most},
		"the rest":                      {most, archives},
		"by another at once":            {twice},
		"by another at once, and again": {twice, some, archives, restores, twice},
		"killed":                        {killed},
		"killed and repeated":           {killed, archives},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			stop := s.work(s.projector("default", nil, projections(t)...))
			s.exec(`SELECT tidemark.append('early', '[{"type": "ordered", "payload": {"n": 1}}, {"type": "first"}, {"type": "ordered", "tags": ["early"], "payload": {"n": 3}}]')`)
			s.closeCampaigns(1, "early")
			s.far()
			s.closeCampaigns(4, "c1", "c2")
			s.far()
			s.exec(`SELECT tidemark.append('open', '[{"type": "ordered", "payload": {"n": 2}}]')`)
			s.exec(`SELECT tidemark.append('late', '[{"type": "ordered", "payload": {"n": 1}}, {"type": "last"}, {"type": "closed_late", "tags": ["late"]}]')`)
			s.closeCampaigns(1, "late")
			s.idle("4")
			s.within("the projection across campaigns is at the end", func() bool {
				return s.value(`SELECT min(position) >= (SELECT max(position) FROM tidemark.journal) FROM tidemark.readers`) == "true"
			})
			stop()
			before, reader := s.look(s.Pool), archive.NewReader(s.store, 0)
			for i, act := range acts {
				act(s)
				if got := s.look(reader.Reading(s.Pool)); !got.same(before) { // by a reader that knows earlier archives
					t.Errorf("after act %d ReadAll and exports are\n%s\nwant\n%s", i+1, got, before)
				}
			}
			s.see(before)
		})
	}
}

// far leaves places free, as many as pages and files of archived events have.
func (s *shop) far() {
	s.t.Helper()
	s.exec(`SELECT setval('tidemark.journal_position', last_value + 20000) FROM tidemark.journal_position`)
}

// archiveWithout archives what is closed but for campaigns, to which appends are open.
func (s *shop) archiveWithout(open ...string) {
	s.t.Helper()
	release := s.hold(open...)
	defer release()
	if done := s.archive(closed); done.LeftOut != int64(len(open)) {
		s.t.Fatalf("archived %+v", done)
	}
}

// hold begins appends to campaigns, which release undoes.
func (s *shop) hold(campaigns ...string) (release func()) {
	s.t.Helper()
	tx, err := s.Begin(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, id := range campaigns {
		if _, err := tx.Exec(s.t.Context(), `SELECT tidemark.append($1, '[{"type": "undone"}]')`, id); err != nil {
			s.t.Fatal(err)
		}
	}
	return func() { _ = tx.Rollback(context.WithoutCancel(s.t.Context())) }
}

func (s *shop) restoreOnly(campaigns ...string) {
	s.t.Helper()
	if done := s.restore(archive.RestoreRequest{Campaigns: campaigns}); done.Campaigns != int64(len(campaigns)) {
		s.t.Fatalf("restored %+v", done)
	}
}

// archiveTwiceAtOnce has one operator archive some campaigns while another has copied all.
func (s *shop) archiveTwiceAtOnce(later ...string) {
	s.t.Helper()
	first := true
	done, err := archive.Run(s.t.Context(), s.Pool, grown{s.store, func() {
		if first {
			first = false
			s.archiveWithout(later...)
		}
	}}, archive.Request{Types: closed.Types, ClosedFor: closed.ClosedFor, By: "bob", Reason: "at once"})
	if err != nil || done.Campaigns != int64(len(later)) {
		s.t.Fatalf("archived %+v, %v", done, err)
	}
	if n := s.value(`SELECT count(*) FROM tidemark.archives WHERE campaigns > 0`); n != "1" {
		s.t.Fatalf("there are %s objects", n)
	}
}

// archiveKilled ends a run after its object was written.
func (s *shop) archiveKilled() {
	s.t.Helper()
	ctx, kill := context.WithCancel(s.t.Context())
	if done, err := archive.Run(ctx, s.Pool, grown{s.store, kill}, closed); !errors.Is(err, context.Canceled) {
		s.t.Fatalf("archived %+v, %v", done, err)
	}
	if files, n := s.files(), s.value(`SELECT count(*) FROM tidemark.archives`); files == 0 || n != "0" {
		s.t.Fatalf("there are %d files and %s objects in the manifest", files, n)
	}
}

// look is what readers see of a journal that has everything.
type look struct {
	events, exported []string
	models, totals   string
	sent             []ledger.Sent
}

func (s *shop) look(db event.Querier) (l look) {
	s.t.Helper()
	for e, err := range journal.ReadAll(s.t.Context(), db, 0) {
		if err != nil {
			s.t.Fatal(err)
		}
		l.events = append(l.events, text(&e))
		l.sent = append(l.sent, ledger.Sent{Campaign: e.CampaignID, ID: e.ID, Seq: e.Seq, Position: e.Position})
	}
	for _, campaign := range []string{"", "c1", "early", "late", "open"} {
		var out strings.Builder
		if _, err := ndjson.Export(s.t.Context(), db, &out, ndjson.ExportConfig{CampaignID: campaign}); err != nil {
			s.t.Fatal(err)
		}
		l.exported = append(l.exported, out.String())
	}
	l.models, l.totals = s.readModels(), s.totals()
	return l
}

// see reads in each way and compares.
func (s *shop) see(want look) {
	s.t.Helper()
	reader := archive.NewReader(s.store, 0)
	if got := s.look(reader.Reading(s.Pool)); !got.same(want) {
		s.t.Errorf("ReadAll and exports are\n%s\nwant\n%s", got, want)
	}
	s.decides()
	// What one has sent before the server was started again, and what one sends that begins now.
	absent, err := ledger.New(s.Pool, "r", ledger.Publisher, time.Minute).Absent(s.t.Context(),
		publications.Key{Topic: "all", Publisher: "old"}, want.sent, 1000)
	if err != nil || len(absent) > 0 {
		s.t.Errorf("ghosts are %+v, %v", absent, err)
	}
	s.publishes(reader, len(want.events))
	p := s.projector("default", reader, projections(s.t)...)
	s.work(p)
	s.rebuilds()
	if models, totals := s.readModels(), s.totals(); models != want.models || totals != want.totals {
		s.t.Errorf("the read models were\n%s\n%s\nand are\n%s\n%s", want.models, want.totals, models, totals)
	}
	for _, name := range []string{"orders", "closings", "shops", "totals"} {
		report, err := p.Verify(s.t.Context(), lookback.VerifyRequest{Projection: name, All: true})
		if err != nil || report.Differing != 0 {
			s.t.Errorf("verify %s: %+v, %v", name, report, err)
		}
	}
	if state, err := p.AsOf(s.t.Context(), "orders", "c1", 2); err != nil || len(state.Tables[0].Rows) != 2 {
		s.t.Errorf("c1 as of event 2: %+v, %v", state, err)
	}
}

// decides appends on conditions that do not hold. It may be refused for another reason: what is
// archived has to be brought back first.
func (s *shop) decides() {
	s.t.Helper()
	for name, q := range map[string]event.Query{
		"a type that is first": event.Types("first"),
		"a type that is last":  event.Types("last", "never"),
		"a type of many":       event.Types("campaign_closed"),
		"a tag that is first":  event.Tagged([]string{"early"}),
		"a tag that is last":   event.Tagged([]string{"late"}, "closed_late"),
	} {
		err := s.append(func(ctx context.Context, tx pgx.Tx) error {
			_, err := journal.Journal{}.AppendIf(ctx, tx, []event.Event{{CampaignID: "another", Type: "decided"}},
				journal.Condition{FailIfMatch: q})
			return err
		}, pgx.TxOptions{})
		if !errors.Is(err, journal.ErrConditionFailed) && !errors.Is(err, event.ErrArchived) {
			s.t.Errorf("an append on the condition that there is no event of %s: %v", name, err)
		}
	}
}

// publishes has a new publisher send all events.
func (s *shop) publishes(reader event.Archive, n int) {
	s.t.Helper()
	sink := &sink{campaigns: map[string][]int64{}}
	relay, err := publisher.New(publisher.Config{
		Pool: s.Pool, Topics: []publisher.Topic{{Name: "all"}}, NoListen: true, PageEvents: 5,
		Publishers: []publisher.Publisher{{Name: "new", Sink: sink, Topics: []string{"all"}}}, PollInterval: 100 * time.Millisecond,
		Archive: reader,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(s.t.Context())
	var g errgroup.Group
	g.Go(func() error { return relay.Run(ctx) })
	s.within("all events are sent", func() bool {
		sink.mu.Lock()
		defer sink.mu.Unlock()
		sent := 0
		for _, seqs := range sink.campaigns {
			sent += len(seqs)
		}
		return sent == n
	})
	stop()
	if err := g.Wait(); err != nil {
		s.t.Error(err)
	}
}

// rebuilds replays campaigns, then rebuilds each projection.
func (s *shop) rebuilds() {
	s.t.Helper()
	by, none, sample := failed.Act{By: "ada", Reason: "a test"}, time.Duration(0), 100
	if err := s.append(func(ctx context.Context, tx pgx.Tx) error {
		_, err := failed.Replay(ctx, tx, failed.ReplayRequest{
			Group: "default", Projection: "shops", Campaigns: []string{"c1", "early", "late"},
		}, by)
		return err
	}, pgx.TxOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.idle("4")
	for _, name := range []string{"orders", "closings", "shops", "totals"} {
		if _, err := rebuild.StartRebuild(s.t.Context(), s.Pool, name, rebuild.Options{Keep: &none, Verify: &sample}, by); err != nil {
			s.t.Fatal(err)
		}
	}
	s.within("replaced tables are dropped", func() bool {
		return rebuild.DropReplaced(s.t.Context(), s.Pool) == nil && s.value(`SELECT count(*) FROM tidemark.rebuilds`) == "0" &&
			s.value(`SELECT count(*) FROM tidemark.projections`) == "4"
	})
}

func (l look) same(other look) bool {
	return slices.Equal(l.events, other.events) && slices.Equal(l.exported, other.exported)
}

func (l look) String() string {
	return fmt.Sprintf("%s\n%s", strings.Join(l.events, "\n"), strings.Join(l.exported, "\n"))
}

// TestARepeatedAppendIsKnownWhateverWasDoneToItsEvents repeats an append whose outcome is unknown.
func TestARepeatedAppendIsKnownWhateverWasDoneToItsEvents(t *testing.T) {
	t.Parallel()
	erase := func(s *shop) {
		s.exec(`INSERT INTO tidemark.erasures (request, actor, reason, held_until)
			VALUES (sha256(''), 'anna', 'asked', now() + interval '1 hour')`)
		s.exec(`SELECT tidemark.erase(1, 1, 'oak', NULL, 500)`)
		s.exec(`UPDATE tidemark.erasures SET ended_at = now()`)
	}
	oak := archive.Request{Campaigns: []string{"oak"}, By: "anna", Reason: "a test"}
	back := archive.RestoreRequest{Campaigns: []string{"oak"}}
	for name, act := range map[string]func(s *shop){
		"nothing":                       func(*shop) {},
		"archived":                      func(s *shop) { s.archive(oak) },
		"archived and restored":         func(s *shop) { s.archive(oak); s.restore(back) },
		"erased":                        erase,
		"erased, archived and restored": func(s *shop) { erase(s); s.archive(oak); s.restore(back) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			one := event.Event{ID: uuid.New(), Type: "ordered", Payload: []byte(`{"name": "ann"}`), Tags: []string{"who=ann"}}
			two := event.Event{ID: uuid.New(), Type: "paid", Payload: []byte(`{"name": "ann"}`)}
			do := func(ctx context.Context, tx pgx.Tx) error {
				got, err := journal.Journal{}.Append(ctx, tx, "oak", journal.Any, one, two)
				if err == nil && (len(got) != 2 || got[1].Seq != 2) {
					err = fmt.Errorf("it returned %+v", got)
				}
				return err
			}
			if err := s.append(do, pgx.TxOptions{}); err != nil {
				t.Fatal(err)
			}
			act(s)
			err := s.append(do, pgx.TxOptions{})
			if name == "archived" != errors.Is(err, event.ErrArchived) || name != "archived" && err != nil {
				t.Errorf("the repeated append: %v", err)
			}
			if n := s.value(`SELECT count(*) FROM tidemark.journal WHERE event_type <> 'events_erased'`); n > "2" {
				t.Errorf("the journal has %s events", n)
			}
		})
	}
}
