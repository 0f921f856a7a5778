package erasure_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/tally"
)

// attic is a folder of archived campaigns. A test may do something before the manifest of an object is
// written: the lines have been copied, and the campaigns are in the journal still.
type attic struct {
	*archive.Folder
	path      string
	meanwhile func()
}

func (a *attic) Put(ctx context.Context, name string, content []byte) error {
	if a.meanwhile != nil && strings.HasSuffix(name, ".manifest.json") {
		a.meanwhile()
	}
	return a.Folder.Put(ctx, name, content)
}

func newAttic(t *testing.T) *attic {
	t.Helper()
	a := &attic{path: t.TempDir()}
	var err error
	if a.Folder, err = archive.NewFolder(a.path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// with returns the objects that have a text.
func (a *attic) with(t *testing.T, text string) (objects []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(a.path, "*.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		packed, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		unpacked, err := gzip.NewReader(packed)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(unpacked)
		if err = errors.Join(err, packed.Close()); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(content, []byte(text)) {
			objects = append(objects, filepath.Base(file))
		}
	}
	return objects
}

// archived archives campaigns, and returns how many left the journal.
func (s *shop) archived(store archive.Store, campaigns ...string) int64 {
	s.t.Helper()
	r := archive.Request{Campaigns: campaigns, By: "anna", Reason: "closed"}
	done, err := archive.Run(s.t.Context(), s.Pool, store, r)
	if err != nil {
		s.t.Fatal(err)
	}
	return done.Campaigns
}

// others is a hash of all events of the neighbours as they are, through the archive.
func (s *shop) others(store archive.Store) string {
	s.t.Helper()
	var all strings.Builder
	for _, campaign := range []string{"ash", "elm"} {
		for e, err := range journal.ReadCampaign(s.t.Context(), archive.NewReader(store, 0).Reading(s.Pool), campaign, 0) {
			if err != nil {
				s.t.Fatal(err)
			}
			all.WriteString(e.ID.String() + string(e.Payload) + string(e.Metadata) + e.Actor + strings.Join(e.Tags, ","))
		}
	}
	return all.String()
}

// TestErasuresReachTheArchive erases ann from oak wherever its events are, by each kind of request.
func TestErasuresReachTheArchive(t *testing.T) {
	t.Parallel()
	all := []string{"ash", "elm", "oak"}
	states := map[string]struct {
		objects int // that have lines of oak
		make    func(s *shop, a *attic)
	}{
		"in the journal": {0, func(s *shop, a *attic) { s.archived(a, "ash", "elm") }},
		"archived":       {1, func(s *shop, a *attic) { s.archived(a, all...) }},
		"archived, restored and archived again": {2, func(s *shop, a *attic) {
			s.archived(a, all...)
			s.restore(a, "oak")
			s.order("oak", "bob", 4)
			s.archived(a, "oak")
		}},
		"restored, and its object is in use": {1, func(s *shop, a *attic) {
			s.archived(a, all...)
			s.restore(a, "oak")
		}},
		"copied and left": {1, func(s *shop, a *attic) {
			a.meanwhile = func() { s.order("oak", "bob", 6) }
			if n := s.archived(a, all...); n != 2 {
				s.t.Fatalf("%d campaigns are archived, want 2", n)
			}
			a.meanwhile = nil
		}},
	}
	tag, field := "customer="+planted("ann"), planted("ann")
	requests := map[string]erasure.Request{
		"campaign":      {Campaign: "oak"},
		"tag":           {Subjects: []string{tag}},
		"field":         {Subjects: []string{field}},
		"tag and field": {Subjects: []string{tag, field}},
		"personal":      {Subjects: []string{field}, Personal: true},
	}
	for name, state := range states {
		for by, request := range requests {
			t.Run(name+", by "+by, func(t *testing.T) {
				t.Parallel()
				s, a := newShop(t), newAttic(t)
				s.order("ash", "bob", 1)
				s.order("elm", "bob", 2)
				s.order("oak", "ann", 2)
				s.order("oak", "ann", 3) // in the old version
				state.make(s, a)
				before, objects := s.others(a), a.with(t, planted("ann"))
				if len(objects) != state.objects {
					t.Fatalf("ann is in %v, want %d objects", objects, state.objects)
				}
				request.Catalogue, request.Archive = s.catalogue, a
				found, err := erasure.Count(t.Context(), s.Pool, request)
				if err != nil {
					t.Fatal(err)
				}
				c := s.erase(request)
				if c.Events != found.Events || found.Campaigns != 1 || by != "campaign" && c.Events != 2 {
					t.Errorf("%d events are erased, counted were %+v", c.Events, found)
				}
				if !slices.Equal(c.Objects, objects) {
					t.Errorf("to be deleted are %v, ann is in %v", c.Objects, objects)
				}
				if n := s.value(`SELECT sum(campaigns) FROM tidemark.archives WHERE object = ANY ($1)`, c.Objects); n > "0" {
					t.Errorf("%s campaigns need them", n)
				}
				if tables := s.everywhere(planted("ann")); len(tables) > 0 {
					t.Errorf("ann is in %v", tables)
				}
				if after := s.others(a); after != before {
					t.Errorf("the neighbours were\n%s\nand are\n%s", before, after)
				}
				if report := s.verify(c); report.Rows > 0 {
					t.Errorf("the search finds %d rows", report.Rows)
				}
				for _, object := range c.Objects {
					if err := os.Remove(filepath.Join(a.path, object)); err != nil {
						t.Fatal(err)
					}
				}
				s.archived(a, all...)
				if left := a.with(t, planted("ann")); len(left) > 0 || s.others(a) != before {
					t.Errorf("archived again, ann is in %v", left)
				}
			})
		}
	}
}

func (s *shop) restore(store archive.Store, campaigns ...string) {
	s.t.Helper()
	if _, err := archive.Restore(s.t.Context(), s.Pool, store, archive.RestoreRequest{Campaigns: campaigns}); err != nil {
		s.t.Fatal(err)
	}
}

func TestWithoutTheArchiveAnErasureOfArchivedEventsIsRefused(t *testing.T) {
	t.Parallel()
	s, a := newShop(t), newAttic(t)
	s.order("oak", "ann", 2)
	s.order("elm", "bob", 2)
	s.archived(a, "oak", "elm")
	object := a.with(t, planted("ann"))[0]
	broken := newAttic(t) // without the object
	for _, r := range []erasure.Request{
		{Campaign: "oak"}, {Subjects: []string{"customer=" + planted("ann")}}, {Subjects: []string{planted("ann")}},
	} {
		r.By, r.Reason, r.Catalogue = "anna", "a request", s.catalogue
		for store, want := range map[archive.Store]error{nil: event.ErrArchived, broken: archive.ErrObject} {
			r.Archive = store
			_, err := erasure.Erase(t.Context(), s.Pool, r)
			if !errors.Is(err, want) || !strings.Contains(err.Error(), object) {
				t.Errorf("%s: got error %v, want %v", r, err, want)
			}
		}
	}
	if begun := s.value(`SELECT count(*) FROM tidemark.erasures`); begun != "0" {
		t.Errorf("%s erasures are on record", begun)
	}
	if left := s.value(`SELECT sum(campaigns) FROM tidemark.archives`); left != "2" {
		t.Errorf("%s campaigns are archived still, want 2", left)
	}
}

// TestAnErasureBeatsAnArchiveThatHasCopiedTheEvents erases while an object with the lines is being written.
func TestAnErasureBeatsAnArchiveThatHasCopiedTheEvents(t *testing.T) {
	t.Parallel()
	s, a := newShop(t), newAttic(t)
	s.order("elm", "bob", 2)
	s.order("oak", "ann", 2)
	a.meanwhile = func() { s.erase(erasure.Request{Campaign: "oak"}) }
	if n := s.archived(a, "elm", "oak"); n != 0 {
		t.Errorf("%d campaigns are archived in an object with erased lines", n)
	}
	a.meanwhile = nil
	if n := s.archived(a, "elm", "oak"); n != 2 {
		t.Errorf("%d campaigns are archived by the next run, want 2", n)
	}
	used := s.value(`SELECT object FROM tidemark.archives`)
	if slices.Contains(a.with(t, planted("ann")), used) {
		t.Errorf("%s is in use, and has what was erased", used)
	}
}

// TestAnErasureWaitsForArchivesThatAreBeingWritten has an archive that has looked for erasures, and has not
// committed.
func TestAnErasureWaitsForArchivesThatAreBeingWritten(t *testing.T) {
	t.Parallel()
	s, a := newShop(t), newAttic(t)
	s.order("oak", "ann", 2)
	tx, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(),
		`SELECT * FROM tidemark.archive('o', sha256(''), 1, '{}', '{}', 'anna', 'a test')`)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		r := erasure.Request{Campaign: "oak", Archive: a, By: "anna", Reason: "a test"}
		_, err := erasure.Erase(t.Context(), s.Pool, r)
		ended <- err
	}()
	tally.Eventually(t, "the erasure waits", tally.Holds(s.Pool, `SELECT EXISTS (SELECT FROM pg_locks l
		JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
		WHERE l.locktype = 'advisory' AND NOT l.granted)`))
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestARepeatedErasureNamesTheObjectsOfAnInterruptedOne has an erasure that was killed when
// it had erased the events.
func TestARepeatedErasureNamesTheObjectsOfAnInterruptedOne(t *testing.T) {
	t.Parallel()
	s, a := newShop(t), newAttic(t)
	s.order("oak", "ann", 2)
	s.archived(a, "oak")
	objects := a.with(t, planted("ann"))
	s.restore(a, "oak")
	s.killed(erasure.Request{Subjects: []string{planted("ann")}})
	s.value(`SELECT tidemark.erase(1, 1, 'oak', '{1}', 10)`)
	s.expire()
	if n := s.archived(a, "oak"); n != 0 {
		t.Error("it is archived while an erasure has not ended")
	}
	if c := s.erase(erasure.Request{Subjects: []string{planted("ann")}, Archive: a}); !slices.Equal(c.Objects, objects) {
		t.Errorf("to be deleted are %v, want %v", c.Objects, objects)
	}
}
