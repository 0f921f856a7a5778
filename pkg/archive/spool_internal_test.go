package archive

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
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
