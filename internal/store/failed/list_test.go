package failed_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func list(t *testing.T, pool *pgxpool.Pool, f failed.Filter) (found []string) {
	t.Helper()
	pairs, err := failed.List(t.Context(), pool, f)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pairs {
		found = append(found, p.Projection+"/"+p.CampaignID)
	}
	return found
}

func TestAFilterChooses(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	fail(t, pool, failed.Failed, "p", "a", 2)
	fail(t, pool, failed.Dead, "p", "b", 1)
	fail(t, pool, failed.Dead, "q", "a", 3)
	rebuild(t, pool, "r", "a", 1)
	exec(t, pool, `UPDATE tidemark.failed SET consumer_group = 'h', event_type = 'rolled', error_class = 'transient',
		error_code = 'panic', fingerprint = 'abc',
		error_message = 'dice: (7] of \d', first_failed_at = now() - interval '3 days' WHERE projection = 'q'`)
	for name, c := range map[string]struct {
		f    failed.Filter
		want []string
	}{
		"all":         {failed.Filter{}, []string{"r/a", "p/a", "p/b", "q/a"}},
		"group":       {failed.Filter{Group: "h"}, []string{"q/a"}},
		"projection":  {failed.Filter{Projection: "p"}, []string{"p/a", "p/b"}},
		"campaign":    {failed.Filter{CampaignID: "b"}, []string{"p/b"}},
		"type":        {failed.Filter{EventType: "rolled"}, []string{"q/a"}},
		"class":       {failed.Filter{Class: "transient"}, []string{"q/a"}},
		"code":        {failed.Filter{Code: "22012"}, []string{"p/a", "p/b"}},
		"fingerprint": {failed.Filter{Fingerprint: "abc"}, []string{"q/a"}},
		"older":       {failed.Filter{OlderThan: 24 * time.Hour}, []string{"q/a"}},
		"status": {
			failed.Filter{Status: []failed.Status{failed.CatchingUp, failed.Dead}},
			[]string{"r/a", "p/b", "q/a"},
		},
		"limit": {failed.Filter{Limit: 2}, []string{"r/a", "p/a"}},
		"several together": {
			failed.Filter{Projection: "p", Status: []failed.Status{failed.Dead}, Code: "22012"},
			[]string{"p/b"},
		},
		"nothing": {failed.Filter{Projection: "p", EventType: "rolled"}, nil},
	} {
		if got := list(t, pool, c.f); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
		if n, err := failed.Count(t.Context(), pool, c.f); err != nil || int(n) != len(c.want) {
			t.Errorf("%s: counted %d, %v, want %d", name, n, err, len(c.want))
		}
	}
}

func TestABadFilterIsRefusedByName(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for want, f := range map[string]failed.Filter{
		`Status holds "gone": known are`: {Status: []failed.Status{"gone"}},
		"OlderThan is -1s":               {OlderThan: -time.Second},
		"Limit is -1":                    {Limit: -1},
		`a field is "a\x00"`:             {Projection: "a\x00"},
		`a field is "\xff"`:              {CampaignID: "\xff"},
	} {
		_, err := failed.List(t.Context(), pool, f) // the table is empty
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}

func TestPagesGoThroughAllPairsOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	want := 0
	for i := range 25 {
		for _, status := range []failed.Status{failed.Failed, failed.Dead} { // many are due at the same time, or never
			fail(t, pool, status, string(status), fmt.Sprintf("c%02d", i), int64(1+i%3))
			want++
		}
	}
	exec(t, pool, `UPDATE tidemark.failed SET next_attempt_at = date_trunc('day', next_attempt_at)
		WHERE status = 'failed'`)
	whole := list(t, pool, failed.Filter{})
	var paged []string
	f := failed.Filter{Limit: 7}
	for len(paged) <= want {
		page, err := failed.List(t.Context(), pool, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range page {
			paged = append(paged, p.Projection+"/"+p.CampaignID)
		}
		if len(page) < f.Limit {
			break
		}
		after := page[len(page)-1].Place()
		f.After = &after
	}
	if len(whole) != want || !slices.Equal(paged, whole) {
		t.Errorf("pages hold %d of %d pairs\n%v\n%v", len(paged), want, paged, whole)
	}
}
