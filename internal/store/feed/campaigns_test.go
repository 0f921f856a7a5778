package feed_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestCampaignsAreListedByPrefix(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for _, id := range []string{"a", "ab", "ab%", "abc", "b", "Å"} {
			for range 3 {
				if _, err := (journal.Journal{}).Append(t.Context(), tx, id, journal.Any, event.Event{Type: "happened"}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		prefix, after string
		limit         int
		want          []string
	}{
		{"", "", 100, []string{"a", "ab", "ab%", "abc", "b", "Å"}},
		{"ab", "", 100, []string{"ab", "ab%", "abc"}},
		{"ab", "", 2, []string{"ab", "ab%"}},
		{"ab%", "", 100, []string{"ab%"}},
		{"aa", "", 100, []string{}},
		{"Å", "", 100, []string{"Å"}},
		{"", "ab", 2, []string{"ab%", "abc"}},
		{"ab", "ab", 100, []string{"ab%", "abc"}},
		{"ab", "abc", 100, []string{}},
		{"ab", "a", 1, []string{"ab"}},
	} {
		got, err := feed.Campaigns(t.Context(), pool, tt.prefix, tt.after, tt.limit)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("up to %d with the prefix %q: got %q, %v, want %q", tt.limit, tt.prefix, got, err, tt.want)
		}
	}
}

func TestLastIsTheHeadOfACampaign(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(t.Context(), tx, "oak", journal.Any, event.Event{Type: "first"},
			event.Event{Type: "second"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := feed.Last(t.Context(), pool, "oak"); err != nil || e.Seq != 2 || e.Type != "second" {
		t.Errorf("got %+v, %v, want the second event", e, err)
	}
	if _, err := feed.Last(t.Context(), pool, "elm"); !errors.Is(err, event.ErrNotFound) {
		t.Errorf("got %v for a campaign that is not there, want ErrNotFound", err)
	}
}
