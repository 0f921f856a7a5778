package journal_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestATokenNamesItsEventInGoAndInSQL(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	for _, campaign := range []string{"oak", "a.b", "1.2.3.", "Straße/7 %41"} {
		var appended []journal.Appended
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
			appended, err = journal.Journal{}.Append(t.Context(), tx, campaign, journal.Any, event.Event{Type: "a"}, event.Event{Type: "b"})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		last := appended[1]
		got, err := journal.ParseToken(last.Token())
		if want := (journal.Token{CampaignID: campaign, Seq: 2, Position: last.Position, EventID: last.ID}); err != nil || got != want {
			t.Errorf("%s names %+v, want %+v: %v", last.Token(), got, want, err)
		}
		var bySQL string
		if err := pool.QueryRow(t.Context(), `SELECT concat_ws('.', 1, position, seq, event_id, $1::text)
			FROM tidemark.append($1::text, '[{"type": "c"}]'::jsonb)`, campaign).Scan(&bySQL); err != nil {
			t.Fatal(err)
		}
		if got, err := journal.ParseToken(bySQL); err != nil || got.CampaignID != campaign || got.Seq != 3 {
			t.Errorf("%s names %+v: %v", bySQL, got, err)
		}
	}
}

func TestATextThatIsNoTokenIsRefusedWithTheRemedy(t *testing.T) {
	t.Parallel()
	const id = "018c5f3e-0000-7000-8000-000000000001"
	for _, text := range []string{
		"", "oak", "1", "1.2", "1.2.3", "1.2.3.", "1.2.3." + id, "1.2.3." + id + ".", "2.7.3." + id + ".oak",
		"1.x.3." + id + ".oak", "1.7.x." + id + ".oak", "1.0.3." + id + ".oak", "1.7.0." + id + ".oak",
		"1.-7.3." + id + ".oak", "1.9223372036854775808.3." + id + ".oak", "1.7.3.oak.oak",
	} {
		_, err := journal.ParseToken(text)
		if !errors.Is(err, journal.ErrInvalidToken) {
			t.Errorf("%q is a token: %v", text, err)
			continue
		}
		if !strings.Contains(err.Error(), `"`+text+`"`) || !strings.Contains(err.Error(), "Appended.Token") {
			t.Errorf("the error does not name the value and the remedy: %v", err)
		}
	}
}
