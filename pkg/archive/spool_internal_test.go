package archive

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestABucketIsReadInPartsThatAreComplete(t *testing.T) {
	t.Parallel()
	file, err := os.Create(t.TempDir() + "/spool")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	s := spool{file: file, blocks: map[int64][]block{}, buffered: map[int64][]record{}}
	positions := rand.Perm(3 * bucketPositions)
	const kept, objects = 4000, 40
	for n := range objects {
		var lines strings.Builder
		for _, p := range positions[n*kept/objects : (n+1)*kept/objects] {
			// A document that looks like the column.
			fmt.Fprintf(&lines, `{"payload":{"x":",\"position\":7,","position":7,"seq":1},"seq":1,"position":%d,"recorded_at":"%s"}`+"\n",
				p+1, strings.Repeat("x", rand.IntN(100)))
		}
		if err := s.add(&object{lines: map[string][]byte{"a": []byte(lines.String())}}, int64(n)); err != nil {
			t.Fatal(err)
		}
		if n%7 == 0 {
			if err := s.flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := map[int64]bool{}
	for _, p := range positions[:kept] {
		want[int64(p+1)] = true
	}
	for after := int64(0); after < 3*bucketPositions; after = s.loaded.until {
		if err := s.load(bucketOf(after+1), after, 5000); err != nil {
			t.Fatal(err)
		}
		if s.loaded.until <= after {
			t.Fatalf("nothing is read after %d", after)
		}
		size := 0
		for _, rec := range s.loaded.records {
			if size += len(rec.Line); rec.Position <= after || rec.Position > s.loaded.until || !want[rec.Position] {
				t.Fatalf("position %d between %d and %d", rec.Position, after, s.loaded.until)
			}
			delete(want, rec.Position)
		}
		if size > 5300 {
			t.Errorf("%d bytes are held", size)
		}
	}
	if len(want) > 0 {
		t.Errorf("%d events are missed", len(want))
	}
}

func TestTriesOnAFullDiskHoldNoMoreThanOneObjectBeyondTheBuffer(t *testing.T) {
	t.Parallel()
	file, err := os.Create(t.TempDir() + "/spool")
	if err == nil {
		err = file.Close() // each write fails
	}
	if err != nil {
		t.Fatal(err)
	}
	s := spool{file: file, blocks: map[int64][]block{}, buffered: map[int64][]record{}}
	line := `{"position":0,"metadata":"` + strings.Repeat("x", 4<<20) + `","seq":1,"position":1,"recorded_at":""}` + "\n"
	failed := 0
	for range 20 {
		if err := s.add(&object{lines: map[string][]byte{"a": []byte(line)}}, 1); err != nil {
			failed++
		}
	}
	if failed == 0 || s.bytes > bufferBytes+len(line) {
		t.Errorf("%d of 20 tries failed, %d bytes are held", failed, s.bytes)
	}
}

// TestTheTemporaryFileIsGoneOnceItIsUnused has a file without a name from the start, so that it ends with the process.
func TestTheTemporaryFileIsGoneOnceItIsUnused(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	store, err := NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if _, err := pool.Exec(t.Context(), `SELECT tidemark.append('oak', '[{"type": "opened"}, {"type": "closed"}]')`); err != nil {
		t.Fatal(err)
	}
	done, err := Run(t.Context(), pool, store, Request{Campaigns: []string{"oak"}, By: "anna", Reason: "a test"})
	if err != nil || done.Campaigns != 1 {
		t.Fatal(done, err)
	}
	r := NewReader(store, 0)
	read := func(after int64, want int) *os.File {
		t.Helper()
		n := 0
		for _, err := range journal.ReadAll(t.Context(), r.Reading(pool), after) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		if n != want {
			t.Errorf("%d events after %d, want %d", n, after, want)
		}
		return r.spool.file
	}
	file := read(0, 2)
	if _, err := os.Stat(file.Name()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file has a name while it is used: %v", err)
	}
	if r.dropSpool(); r.spool.file != file { // as if the timer had waited for a long read
		t.Error("it is gone though it was used just now")
	}
	r.spool.used = time.Time{}
	if read(0, 2); r.spool.used.IsZero() {
		t.Error("a read of archived events does not keep it")
	}
	if _, err := pool.Exec(t.Context(), `SELECT tidemark.append('elm', '[{"type": "opened"}]')`); err != nil {
		t.Fatal(err)
	}
	r.spool.used = time.Time{} // long ago
	if read(2, 1); !r.spool.used.IsZero() {
		t.Error("a read of newer events keeps it, with lines that may be erased by now")
	}
	if !r.spool.unused.Reset(0) { // as if its time were over
		t.Error("no timer runs")
	}
	for deadline := time.Now().Add(time.Minute); ; {
		if _, err := file.Stat(); errors.Is(err, os.ErrClosed) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the file is open still")
		}
		runtime.Gosched()
	}
	if again := read(0, 3); again == file {
		t.Error("it reads from a file that is gone")
	}
	r.spool.unused.Stop()
	r.spool.used = time.Time{}
	r.dropSpool()
}
