package lake

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/parquet-go/parquet-go"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

func day(name string, from, n int) (events []publisher.Event) {
	at, err := time.Parse(time.DateOnly, name)
	if err != nil {
		panic(err)
	}
	for i := range n {
		events = append(events, publisher.Event{Event: event.Event{
			ID: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, from+i)), Type: "noted", CampaignID: "c", Seq: int64(from + i),
			Position: int64(from + i), RecordedAt: at, OccurredAt: at, Payload: []byte(`{"text": "` + strings.Repeat("x", i%50) + `"}`),
		}})
	}
	return events
}

func newSink(t *testing.T, root string) *Sink {
	t.Helper()
	s, err := New(Config{Path: root, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func publish(t *testing.T, s *Sink, events []publisher.Event) {
	t.Helper()
	if err := s.Publish(context.WithoutCancel(t.Context()), events); err != nil {
		t.Fatal(err)
	}
}

// positions returns those of all rows that the table has, in order.
func positions(t *testing.T, s *Sink) (all []int64) {
	t.Helper()
	if err := s.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, files := range s.table.dirs {
		for _, f := range files {
			rows, err := parquet.ReadFile[key](filepath.Join(s.cfg.Path, f.name))
			if err != nil {
				t.Fatal(err)
			}
			if want := (stats{int64(len(rows)), position{rows[0].Position}, position{rows[len(rows)-1].Position}}); f.stats != want {
				t.Errorf("%s has %v, the log says %v", f.name, want, f.stats)
			}
			for _, row := range rows {
				all = append(all, row.Position)
			}
		}
	}
	slices.Sort(all)
	return all
}

func upTo(n int64) (all []int64) {
	for p := range n {
		all = append(all, p)
	}
	return all
}

func files(t *testing.T, s *Sink, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(s.cfg.Path, filepath.FromSlash(pattern)))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestALongLifeLeavesFewFilesAndAShortLog(t *testing.T) {
	t.Parallel()
	s := newSink(t, t.TempDir())
	s.cfg.Keep = time.Nanosecond
	today := time.Now().UTC().Format(time.DateOnly)
	const batches, size = 250, 4
	for i := range batches {
		publish(t, s, day(today, i*size, size))
		if i%100 == 99 { // a new process reads the checkpoint
			keep := s.cfg.Keep
			s = newSink(t, s.cfg.Path)
			s.cfg.Keep = keep
		}
	}
	if got := positions(t, s); !slices.Equal(got, upTo(batches*size)) {
		t.Errorf("the table has %d rows, want %d", len(got), batches*size)
	}
	if s.table.checkpoint < 200 {
		t.Errorf("the last checkpoint is that of %d, the version %d", s.table.checkpoint, s.table.version)
	}
	if n := len(files(t, s, "_delta_log/*")); n > 2*checkpointEvery+5 {
		t.Errorf("the log has %d files", n)
	}
	if n := len(files(t, s, "day=*/type=*/*")); n > checkpointEvery+40 {
		t.Errorf("there are %d data files", n)
	}
	if d := s.table.dirs["day="+today+"/type=noted"]; len(d) > 4*enough {
		t.Errorf("the table has %d files", len(d))
	}
	publish(t, newSink(t, s.cfg.Path), day(today, 0, batches*size))
	if got := positions(t, s); !slices.Equal(got, upTo(batches*size)) {
		t.Errorf("after repeats the table has %d rows, want %d", len(got), batches*size)
	}
}

func TestAProcessThatWasIdleForLongReadsTheCheckpoint(t *testing.T) {
	t.Parallel()
	busy := newSink(t, t.TempDir())
	busy.cfg.Keep = time.Nanosecond
	publish(t, busy, day("2026-11-26", 0, 1))
	idle := newSink(t, busy.cfg.Path)
	publish(t, idle, day("2026-11-26", 0, 1))
	for i := range 2*checkpointEvery + 5 {
		publish(t, busy, day("2026-11-26", 1+i, 1))
	}
	if _, err := os.Stat(busy.folder.path(entryName(0))); err == nil {
		t.Error("the first entry is still there")
	}
	publish(t, idle, day("2026-11-26", 0, 2*checkpointEvery+7))
	if got := positions(t, idle); !slices.Equal(got, upTo(2*checkpointEvery+7)) {
		t.Errorf("the table has %d rows, want %d", len(got), 2*checkpointEvery+7)
	}
}

func TestMergedFilesStayForReaders(t *testing.T) {
	t.Parallel()
	s := newSink(t, t.TempDir())
	for i := range enough {
		publish(t, s, day("2026-11-26", i, 1))
	}
	if n := len(files(t, s, "day=*/type=*/*")); n != enough+1 {
		t.Errorf("there are %d data files, want those that were merged and one more", n)
	}
	if n := len(s.table.dirs["day=2026-11-26/type=noted"]); n != 1 {
		t.Errorf("the table has %d files, want 1", n)
	}
	if err := s.sweep(t.Context()); err != nil || len(s.table.gone) != enough {
		t.Errorf("%d merged files are kept, want %d: %v", len(s.table.gone), enough, err)
	}
	s.cfg.Keep = 0
	if err := s.sweep(t.Context()); err != nil || len(files(t, s, "day=*/type=*/*")) != 1 {
		t.Errorf("merged files are not deleted when their time is over: %v", err)
	}
}

func TestFilesWithOverlappingPositionsAreMergedInOrder(t *testing.T) {
	t.Parallel()
	s := newSink(t, t.TempDir())
	all := day("2026-11-26", 0, 4000)
	for i := range enough {
		var mine []publisher.Event
		for j := i; j < len(all); j += enough {
			mine = append(mine, all[j])
		}
		publish(t, s, mine)
	}
	if n := len(s.table.dirs["day=2026-11-26/type=noted"]); n != 1 {
		t.Errorf("the table has %d files, want 1", n)
	}
	if got := positions(t, s); !slices.Equal(got, upTo(4000)) {
		t.Errorf("the table has %d rows, want 4000", len(got))
	}
	publish(t, newSink(t, s.cfg.Path), all)
	if got := positions(t, s); len(got) != 4000 {
		t.Errorf("after repeats the table has %d rows, want 4000", len(got))
	}
}

func TestAMergeThatAnotherProcessOvertakesChangesNothing(t *testing.T) {
	t.Parallel()
	s := newSink(t, t.TempDir())
	for i := range enough - 1 {
		publish(t, s, day("2026-11-26", i, 1))
	}
	old := slices.Clone(s.table.dirs["day=2026-11-26/type=noted"])
	publish(t, newSink(t, s.cfg.Path), day("2026-11-26", enough-1, 1)) // merges them too
	if err := s.merge(t.Context(), "day=2026-11-26/type=noted", old); err != nil {
		t.Fatal(err)
	}
	if got := positions(t, s); !slices.Equal(got, upTo(enough)) {
		t.Errorf("the table has the rows %v", got)
	}
	if n := len(files(t, s, "day=*/type=*/*")); n != enough+1 {
		t.Errorf("there are %d data files, want %d: that of the merge is left behind", n, enough+1)
	}
}

func TestWhatACrashLeavesBehindIsSwept(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dead := newSink(t, root)
	publish(t, dead, day("2026-11-26", 0, 1))
	if _, err := dead.writeAll(t.Context(), map[string][]*publisher.Event{
		"day=2026-11-26/type=noted": {&day("2026-11-26", 1, 1)[0]},
	}); err != nil { // dies before the commit
		t.Fatal(err)
	}
	half, young := filepath.Join(root, "day=2026-11-26", unfinished+"1"), filepath.Join(root, "_delta_log", unfinished+"2")
	for _, name := range []string{half, young} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * abandoned)
	if err := os.Chtimes(half, old, old); err != nil {
		t.Fatal(err)
	}
	s := newSink(t, root)
	publish(t, s, day("2026-11-26", 1, 1))
	if n := len(files(t, s, "day=*/type=*/*.parquet")); n != 2 {
		t.Errorf("there are %d data files, want 2", n)
	}
	if _, err := os.Stat(half); err == nil {
		t.Error("an unfinished file is not swept")
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("a file that may still be written is swept: %v", err)
	}
}
