package archive_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/ndjson"
	"github.com/tidemark-go/tidemark/internal/projector/rebuild"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/lease"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
)

type sums struct {
	N   int   `json:"n"`
	All []int `json:"all"`
}

type order struct {
	N int `json:"n"`
}

// projections are one of each kind.
func projections(t *testing.T) []projection.Projection {
	t.Helper()
	orders := &projection.Handlers{
		Name: "orders", Version: 1,
		Tables: `CREATE TABLE orders (campaign_id text, seq bigint, position bigint, n int, PRIMARY KEY (campaign_id, seq))`,
		On: []projection.Handler{
			projection.Handle("ordered", func(_ context.Context, g *projection.Group, e event.Event, o order) error {
				g.Queue(`INSERT INTO orders VALUES ($1, $2, $3, $4)`, e.CampaignID, e.Seq, e.Position, o.N)
				return nil
			}),
		},
	}
	files, err := sqlfile.LoadDir(fstest.MapFS{"closings.sql": {Data: []byte(`-- projection: closings
-- version: 1
CREATE TABLE closings (campaign_id text COLLATE "C" PRIMARY KEY, seq bigint, orders bigint);
-- on: ordered
INSERT INTO closings AS c VALUES (event.campaign_id, NULL, 1) ON CONFLICT (campaign_id) DO UPDATE SET orders = c.orders + 1;
-- on: campaign_closed
INSERT INTO closings AS c VALUES (event.campaign_id, event.seq, 0) ON CONFLICT (campaign_id) DO UPDATE SET seq = event.seq;
`)}})
	if err != nil {
		t.Fatal(err)
	}
	totals := projection.Document[sums]{
		Name: "totals", Version: 1, Types: []string{"ordered"}, Scope: projection.ScopeJournal, Partitions: 2,
		Key: func(e event.Event) (string, error) { return string(e.Payload), nil },
		Fold: func(doc *sums, _ event.Event) error {
			doc.N++
			return nil
		},
	}
	return append(files, orders, totals, projection.Document[sums]{
		Name: "shops", Version: 1, Types: []string{"ordered"}, Fold: func(doc *sums, e event.Event) error {
			o, err := event.Decode[order](e)
			doc.N, doc.All = doc.N+1, append(doc.All, o.N)
			return err
		},
	})
}

// late is a projection of another group.
func late() projection.Projection {
	return projection.Handlers{
		Name: "late", Version: 1, Tables: `CREATE TABLE late (campaign_id text, seq bigint, n int, PRIMARY KEY (campaign_id, seq))`,
		On: []projection.Handler{
			projection.Handle("ordered", func(_ context.Context, g *projection.Group, e event.Event, o order) error {
				g.Queue(`INSERT INTO late VALUES ($1, $2, $3)`, e.CampaignID, e.Seq, o.N)
				return nil
			}),
		},
	}
}

func (s *shop) projector(group string, through event.Archive, projections ...projection.Projection) *projector.Projector {
	s.t.Helper()
	p, err := projector.New(projector.Config{
		Pool: s.Pool, Projections: projections, ConsumerGroup: group, Archive: through, NoListen: true,
		PollInterval: 100 * time.Millisecond, GroupEvents: 7,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// work runs a worker until stop is called, or the test ends.
func (s *shop) work(p *projector.Projector) (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			if err := <-done; err != nil {
				s.t.Error(err)
			}
		}
	}
	s.t.Cleanup(stop)
	return stop
}

func (s *shop) within(what string, holds func() bool) {
	s.t.Helper()
	for until := time.Now().Add(30 * time.Second); !holds(); {
		if time.Now().After(until) {
			s.t.Fatalf("not within 30 s: %s; failed: %s", what, s.value(`SELECT string_agg(d::text, ' ') FROM tidemark.failed d`))
		}
		<-time.After(20 * time.Millisecond)
	}
}

// idle waits until so many projections have applied everything.
func (s *shop) idle(projections string) {
	s.t.Helper()
	s.within("all is applied", func() bool {
		return s.value(`SELECT (SELECT count(*) FROM tidemark.outbox) + (SELECT count(*) FROM tidemark.failed)
			+ (SELECT count(*) FROM tidemark.rebuilds) + (SELECT count(*) FROM tidemark.projections WHERE state <> 'active' OR name LIKE '%~next')
			+ (SELECT count(*) FROM tidemark.consumer_groups WHERE state = 'filing')`) == "0" &&
			s.value(`SELECT count(*) FROM tidemark.projections`) == projections
	})
}

func (s *shop) readModels() string {
	s.t.Helper()
	return s.value(`SELECT concat_ws(E'\n', (SELECT string_agg(o::text, ' ' ORDER BY o) FROM tidemark_views.orders o),
		(SELECT string_agg(o::text, ' ' ORDER BY o) FROM tidemark_views.closings o),
		(SELECT string_agg(campaign_id || doc, ' ' ORDER BY campaign_id) FROM tidemark_views.shops))`)
}

func (s *shop) ids(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("c%03d", i))
	}
	return ids
}

// archived is a shop of 20 campaigns of which one is open, and whose archive has the others.
func archived(t *testing.T) (s *shop, reader *archive.Reader, before string) {
	t.Helper()
	s = newShop(t)
	stop := s.work(s.projector("default", nil, projections(t)...))
	s.closeCampaigns(5, s.ids(18)...)
	s.exec(`SELECT tidemark.append('c007x', '[{"type": "ordered", "tags": ["a"], "payload": {"n": 7}}, {"type": "campaign_closed", "intent": "audit_only"}]')`)
	s.exec(`SELECT tidemark.append('open', '[{"type": "ordered", "payload": {"n": 8}}, {"type": "ordered", "payload": {"n": 9}}]')`)
	s.idle("4")
	s.within("the projection across campaigns is at the end", func() bool {
		return s.value(`SELECT min(position) >= (SELECT max(position) FROM tidemark.journal) FROM tidemark.readers`) == "true"
	})
	stop()
	if done := s.archive(closed); done.Campaigns != 19 || done.LeftOut != 0 {
		t.Fatalf("archived %+v", done)
	}
	return s, archive.NewReader(s.store, 1), s.readModels()
}

func TestReadModelsAreRebuiltThroughTheArchive(t *testing.T) {
	t.Parallel()
	s, reader, before := archived(t)
	s.work(s.projector("default", reader, projections(t)...))
	ada, none := failed.Act{By: "ada", Reason: "a test"}, time.Duration(0)
	for _, name := range []string{"orders", "closings", "shops"} {
		sample := 100
		if _, err := rebuild.StartRebuild(t.Context(), s.Pool, name, rebuild.Options{Keep: &none, Verify: &sample}, ada); err != nil {
			t.Fatal(err)
		}
	}
	s.within("replaced tables are dropped", func() bool {
		return rebuild.DropReplaced(t.Context(), s.Pool) == nil && s.value(`SELECT count(*) FROM tidemark.projections`) == "4" &&
			s.value(`SELECT count(*) FROM tidemark.rebuilds`) == "0"
	})
	if after := s.readModels(); after != before {
		t.Errorf("the read models were\n%s\nand are\n%s", before, after)
	}
}

func TestANewGroupAndAReplayReadThroughTheArchive(t *testing.T) {
	t.Parallel()
	s, reader, before := archived(t)
	p := s.projector("default", reader, projections(t)...)
	s.work(p)
	s.work(s.projector("late", reader, late()))
	for _, name := range []string{"orders", "closings", "shops"} {
		if err := s.append(func(ctx context.Context, tx pgx.Tx) error {
			_, err := failed.Replay(ctx, tx, failed.ReplayRequest{
				Group: "default", Projection: name, Campaigns: []string{"c003", "c007x"},
			}, failed.Act{By: "ada", Reason: "a test"})
			return err
		}, pgx.TxOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.idle("5")
	if after := s.readModels(); after != before {
		t.Errorf("the read models were\n%s\nand are\n%s", before, after)
	}
	want := s.value(`SELECT string_agg((campaign_id, seq, n)::text, ' ' ORDER BY campaign_id, seq) FROM tidemark_views.orders`)
	if got := s.value(`SELECT string_agg(l::text, ' ' ORDER BY l) FROM tidemark_views.late l`); got != want {
		t.Errorf("late has\n%s\nwant\n%s", got, want)
	}
	for _, name := range []string{"orders", "closings", "shops"} {
		report, err := p.Verify(t.Context(), lookback.VerifyRequest{Projection: name, All: true})
		if err != nil || report.Campaigns != 20 || report.Differing != 0 {
			t.Errorf("verify %s: %+v, %v", name, report, err)
		}
		state, err := p.AsOf(t.Context(), name, "c003", 2)
		if err != nil || len(state.Tables) != 1 || len(state.Tables[0].Rows) == 0 {
			t.Errorf("%s as of event 2: %+v, %v", name, state, err)
		}
	}
	for _, name := range []string{"orders", "late", "totals"} {
		if proof, err := admin.Prove(t.Context(), s.Pool, name, func(u lease.Unproved) { t.Logf("%+v", u) }); err != nil ||
			proof.Campaigns+proof.Partitions == 0 || proof.Differing != 0 {
			t.Errorf("the proof of %s: %+v, %v", name, proof, err)
		}
	}
}

func TestEventsAreExportedThroughTheArchiveAsBefore(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.closeCampaigns(700, "long")
	s.exec(`SELECT tidemark.append('oak', '[{"type": "ordered", "tags": ["a"], "payload": {"n": 0.10}}, {"type": "ordered", "actor": "eve"},
		{"type": "campaign_closed", "metadata": {"x": null}}]')`)
	text := func(db event.Querier, campaign string) (string, error) {
		var out strings.Builder
		_, err := ndjson.Export(t.Context(), db, &out, ndjson.ExportConfig{CampaignID: campaign})
		return out.String(), err
	}
	want := map[string]string{}
	for _, campaign := range []string{"long", "oak", ""} { // "": all, by position
		want[campaign], _ = text(s.Pool, campaign)
	}
	second, err := journal.Get(t.Context(), s.Pool, "oak", 2)
	if err != nil {
		t.Fatal(err)
	}
	s.archive(closed)
	db := archive.NewReader(s.store, 0).Reading(s.Pool)
	other := newShop(t)
	object, err := os.Open(filepath.Join(s.folder, s.value(`SELECT object FROM tidemark.archives`)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = object.Close() }()
	lines, err := gzip.NewReader(object)
	if err == nil {
		_, err = ndjson.Import(t.Context(), other.Pool, lines, ndjson.ImportConfig{Source: "archive"})
	}
	if got, exportErr := text(other.Pool, "oak"); err != nil || exportErr != nil || got != want["oak"] {
		t.Errorf("an import of the object is exported as\n%s, %v", got, errors.Join(err, exportErr))
	}
	for campaign, want := range want {
		if got, err := text(db, campaign); err != nil || got != want {
			t.Errorf("%s was exported as\n%.2000s\nand is\n%.2000s, %v", campaign, want, got, err)
		}
	}
	if e, err := journal.Get(t.Context(), db, "oak", 2); err != nil || string(e.Payload) != string(second.Payload) ||
		e.Position != second.Position || !e.RecordedAt.Equal(second.RecordedAt) || e.ID != second.ID || e.Actor != second.Actor {
		t.Errorf("event 2 is %+v, %v, was %+v", e, err, second)
	}
	if e, err := journal.Find(t.Context(), db, "oak", second.ID); err != nil || e.Seq != 2 {
		t.Errorf("found %+v, %v", e, err)
	}
	if _, err := journal.Get(t.Context(), db, "oak", 4); !errors.Is(err, event.ErrNotFound) {
		t.Errorf("event 4: %v", err)
	}
	if events, err := journal.Read(t.Context(), db, event.Tagged([]string{"a"}), 0, 10); err != nil || len(events) != 1 ||
		string(events[0].Payload) != `{"n": 0.10}` {
		t.Errorf("events with the tag: %+v, %v", events, err)
	}

	for what, err := range map[string]error{
		"a campaign":         second2(journal.Get(t.Context(), s.Pool, "oak", 2)),
		"an event by id":     second2(journal.Find(t.Context(), s.Pool, "oak", second.ID)),
		"the last event":     second2(journal.Last(t.Context(), s.Pool, "oak")),
		"an export":          second2(text(s.Pool, "oak")),
		"an export of all":   second2(text(s.Pool, "")),
		"a query of a type":  second2(journal.Read(t.Context(), db, event.Types("ordered"), 0, 10)),
		"a query of all":     second2(journal.Read(t.Context(), db, event.Query{}, 0, 10)),
		"a position by time": second2(journal.PositionAt(t.Context(), s.Pool, time.Now().Add(-time.Hour))),
	} {
		if !errors.Is(err, event.ErrArchived) || !strings.Contains(err.Error(), "events-") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.append(func(ctx context.Context, tx pgx.Tx) error {
		_, _, err := journal.Decide(ctx, tx, event.Tagged([]string{"a"}), func(n *int, _ event.Event) error {
			*n++
			return nil
		})
		return err
	}, pgx.TxOptions{}); !errors.Is(err, event.ErrArchived) {
		t.Errorf("a decision about the tag: %v", err)
	}
	if events, err := journal.Read(t.Context(), s.Pool, event.Types("never"), 0, 10); err != nil || len(events) != 0 {
		t.Errorf("a query of a type that is not archived: %v, %v", events, err)
	}
}

func second2[T any](_ T, err error) error { return err }

func TestAnObjectThatIsMissingOrChangedIsNamed(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(path string, content []byte) error{
		"missing":   func(path string, _ []byte) error { return os.Remove(path) },
		"truncated": func(path string, content []byte) error { return os.WriteFile(path, content[:len(content)/2], 0o600) },
		"one byte": func(path string, content []byte) error {
			content[len(content)/2] ^= 1
			return os.WriteFile(path, content, 0o600)
		},
		"empty": func(path string, _ []byte) error { return os.WriteFile(path, nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.closeCampaigns(3, "oak")
			s.archive(archive.Request{Campaigns: []string{"oak"}, By: "anna", Reason: "first"})
			object := s.value(`SELECT object FROM tidemark.archives`)
			s.closeCampaigns(3, "ash")
			s.archive(closed)
			path := filepath.Join(s.folder, object)
			content, err := os.ReadFile(path)
			if err == nil {
				err = spoil(path, content)
			}
			if err != nil {
				t.Fatal(err)
			}
			before := s.value(`SELECT string_agg(j::text, ' ' ORDER BY seq) FROM tidemark.journal j WHERE campaign_id = 'oak'`)
			reader := archive.NewReader(s.store, 0)
			if _, err := ndjson.Export(t.Context(), reader.Reading(s.Pool), io.Discard, ndjson.ExportConfig{CampaignID: "oak"}); !errors.Is(
				err, archive.ErrObject) || !errors.Is(err, event.ErrArchived) || !strings.Contains(err.Error(), object) {
				t.Errorf("export: %v", err)
			}
			done, err := archive.Restore(t.Context(), s.Pool, s.store, archive.RestoreRequest{All: true})
			if !errors.Is(err, archive.ErrObject) || !strings.Contains(err.Error(), object) || done.Campaigns != 1 {
				t.Errorf("restored %+v, %v", done, err)
			}
			if after := s.value(`SELECT string_agg(j::text, ' ' ORDER BY seq) FROM tidemark.journal j WHERE campaign_id = 'oak'`); after != before {
				t.Errorf("oak was %s and is %s", before, after)
			}
		})
	}
}

func TestAWorkerWithoutTheArchiveNamesArchivedCampaignsAndGoesOn(t *testing.T) {
	t.Parallel()
	s, reader, _ := archived(t)
	stop := s.work(s.projector("late", nil, late()))
	s.within("the open campaign is applied", func() bool {
		return s.value(`SELECT checkpoint FROM tidemark.leases WHERE consumer_group = 'late' AND campaign_id = 'open'`) == "2"
	})
	s.within("the others wait, and say why", func() bool {
		return s.value(`SELECT count(*) FROM tidemark.failed WHERE projection = 'late' AND next_seq = 1 AND error_message
			LIKE 'campaign "c0%" is archived in events-%: set TIDEMARK_ARCHIVE_URL%'`) == "19"
	})
	if n := s.value(`SELECT count(*) FROM tidemark_views.late`); n != "2" {
		t.Errorf("late has %s rows, want those of the open campaign", n)
	}
	stop()
	s.exec(`UPDATE tidemark.failed SET next_attempt_at = clock_timestamp(), status = 'failed'`)
	s.work(s.projector("late", reader, late()))
	s.within("all is applied", func() bool { return s.value(`SELECT count(*) FROM tidemark.failed`) == "0" })
	if n := s.value(`SELECT count(*) FROM tidemark_views.late`); n != s.value(`SELECT count(*) FROM tidemark_views.orders`) {
		t.Errorf("late has %s rows", n)
	}
}
