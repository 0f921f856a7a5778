package web_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// TestNoReadOverArchivedEventsIsAnEmptySuccess reads in each way: the error names the object and the remedy.
// Reads in Go with a Reader return the events, or refuse.
func TestNoReadOverArchivedEventsIsAnEmptySuccess(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	exec(t, s.pool, `SELECT tidemark.append('oak', '[{"type": "opened"}, {"type": "paid", "tags": ["who=ann"]},
		{"type": "closed"}]')`)
	exec(t, s.pool, `SELECT tidemark.append('elm', '[{"type": "opened"}]')`)
	store, err := archive.NewFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	done, err := archive.Run(t.Context(), s.pool, store, archive.Request{
		Campaigns: []string{"oak"}, By: "ada", Reason: "a test",
	})
	if err != nil || done.Campaigns != 1 {
		t.Fatal(done, err)
	}
	var object string
	if err := s.pool.QueryRow(t.Context(), `SELECT object FROM tidemark.archives`).Scan(&object); err != nil {
		t.Fatal(err)
	}

	for _, path := range []string{
		"/events/stream", "/events/stream?after=1", "/events/stream?type=opened", "/events/stream?type=closed",
		"/events/stream?tag=who=ann", "/events/stream?type=paid&tag=who=ann", "/campaigns/oak/events/stream",
		"/events?type=opened", "/events?type=closed", "/events?tag=who=ann", "/campaigns/oak/events",
		"/events/export", "/events/export?type=opened", "/events/export?campaign=oak", "/events/export?after=1",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"/api/v1"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+s.tokens[auth.Operator])
		response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != http.StatusConflict {
			t.Errorf("%s: %s", path, response.Status)
			_ = response.Body.Close()
			continue
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || !strings.Contains(string(body), object) || !strings.Contains(string(body), "restore") {
			t.Errorf("%s: it does not name %s and the remedy: %s, %v", path, object, body, err)
		}
	}

	count := func(n *int, _ event.Event) error { *n++; return nil }
	reads := map[string]func(db event.Querier) (int, error){
		"ReadAll": func(db event.Querier) (n int, err error) {
			for _, err := range journal.ReadAll(t.Context(), db, 0) {
				if err != nil {
					return n, err
				}
				n++
			}
			return n, nil
		},
		"ReadCampaign": func(db event.Querier) (n int, err error) {
			for e, err := range journal.ReadCampaign(t.Context(), db, "oak", 0) {
				if err != nil {
					return n, err
				}
				n += int(e.Seq)
			}
			return n, nil
		},
		"Read by tag": func(db event.Querier) (int, error) {
			events, err := journal.Read(t.Context(), db, event.Tagged([]string{"who=ann"}), 0, 10)
			return len(events), err
		},
		"Decide by tag": func(db event.Querier) (n int, err error) {
			n, _, err = journal.Decide(t.Context(), db, event.Tagged([]string{"who=ann"}), count)
			return n, err
		},
		"Read by type": func(db event.Querier) (int, error) {
			events, err := journal.Read(t.Context(), db, event.Types("opened"), 0, 10)
			return len(events), err
		},
		"Decide by type": func(db event.Querier) (n int, err error) {
			n, _, err = journal.Decide(t.Context(), db, event.Types("opened"), count)
			return n, err
		},
		"Read everything": func(db event.Querier) (int, error) {
			events, err := journal.Read(t.Context(), db, event.Query{}, 0, 10)
			return len(events), err
		},
	}
	through := archive.NewReader(store, 0).Reading(s.pool)
	want := map[string]int{"ReadAll": 4, "ReadCampaign": 1 + 2 + 3, "Read by tag": 1, "Decide by tag": 1}
	for name, read := range reads {
		if n, err := read(s.pool); n != 0 || !errors.Is(err, event.ErrArchived) || !strings.Contains(err.Error(), object) {
			t.Errorf("%s without the archive: %d events, %v", name, n, err)
		}
		n, err := read(through)
		if refused := want[name] == 0; refused && !errors.Is(err, event.ErrArchived) || !refused && (err != nil || n != want[name]) {
			t.Errorf("%s through the archive: %d events, %v; want %d", name, n, err, want[name])
		}
	}
	err = pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.AppendIf(t.Context(), tx, []event.Event{{CampaignID: "elm", Type: "noted"}},
			journal.Condition{FailIfMatch: event.Types("lost", "opened")})
		return err
	})
	if !errors.Is(err, event.ErrArchived) {
		t.Errorf("a condition over archived events: %v", err)
	}
}
