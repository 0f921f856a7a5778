package matrix_test

import (
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestABackupRestoredAfterErasures restores a backup, finds by the certificates what has to be erased
// again, and erases it. Numbers of erasures come again.
func TestABackupRestoredAfterErasures(t *testing.T) {
	t.Parallel()
	w := newWorld(t, eraseWhole)
	for _, name := range []string{"gone-a-before", "gone-b-after", "gone-c-after", "kept-d-never"} {
		w.plant(planted{"shop", "ordered", name, 2, false}, planted{"shop", "ordered", name, 3, true})
	}
	var certificates []erasure.Certificate
	erase := func(pool *pgxpool.Pool, r erasure.Request) {
		t.Helper()
		r.Catalogue, r.By, r.Reason = types(), "anna", "a request"
		c, err := erasure.Erase(t.Context(), pool, r)
		w.must(err)
		text, err := json.Marshal(c) // as it is kept
		w.must(err)
		var kept erasure.Certificate
		w.must(json.Unmarshal(text, &kept))
		certificates = append(certificates, kept)
	}
	erase(w.Pool, erasure.Request{Subjects: []string{"gone-a-before"}})
	backup := w.dump()
	erase(w.Pool, erasure.Request{Subjects: []string{"gone-b-after"}})
	erase(w.Pool, erasure.Request{Subjects: []string{"gone-c-after"}, Personal: true})

	url := pgtest.Empty(t)
	psql := exec.CommandContext(t.Context(), w.program("psql"), "--quiet", "--set", "ON_ERROR_STOP=1", "--dbname", url)
	psql.Stdin = strings.NewReader(backup)
	if out, err := psql.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	restored, err := pgxpool.New(t.Context(), pgtest.UTF8(url))
	w.must(err)
	t.Cleanup(restored.Close)
	again := func() (missing []erasure.Certificate) {
		for _, c := range certificates[:3] {
			_, err := erasure.Verify(t.Context(), restored, restored, c)
			if errors.Is(err, erasure.ErrKey) {
				missing = append(missing, c)
				continue
			}
			w.must(err)
		}
		return missing
	}
	missing := again()
	if len(missing) != 2 || missing[0].Subjects[0] != "gone-b-after" || missing[1].Subjects[0] != "gone-c-after" {
		t.Fatalf("to be erased again are %+v", missing)
	}
	for _, c := range slices.Backward(missing) {
		erase(restored, erasure.Request{Subjects: c.Subjects, Personal: c.Personal})
	}
	if missing := again(); len(missing) != 2 {
		t.Errorf("certificates of before the restore fit erasures with their numbers: %+v", missing)
	}
	for _, c := range certificates[3:] {
		if report, err := erasure.Verify(t.Context(), restored, restored, c); err != nil || report.Rows > 0 {
			t.Errorf("erased again: %+v, %v", report, err)
		}
	}
	w.Pool = restored
	w.scan(nil)
}
