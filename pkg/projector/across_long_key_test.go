package projector_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// TestAKeyThatCannotBeStoredHoldsBackNoOther has keys that an index or a text of Postgres does not take, though
// payloads do.
func TestAKeyThatCannotBeStoredHoldsBackNoOther(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]func(player string) string{
		"too long":      func(string) string { return strings.Repeat(uuid.NewString(), 200) },
		"NUL":           func(player string) string { return player + "\x00" },
		"invalid UTF-8": func(player string) string { return player + "\xff" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			known := key("ann") // the same each time
			p := workerOf(t, pool, nil, projection.Document[standing]{
				Name: "board", Version: 1, Types: []string{"scored"}, Scope: projection.ScopeJournal,
				Key: func(e event.Event) (string, error) {
					var p scored
					if err := json.Unmarshal(e.Payload, &p); err != nil || p.Player != "bad" {
						return p.Player, err
					}
					return known, nil
				},
				Fold: func(doc *standing, e event.Event) error {
					doc.add(e, 1)
					return nil
				},
			})
			score(t, pool, "game", scored{"ann", 1}, scored{"bad", 7}, scored{"bob", 2}, scored{"bad", 7}, scored{"ann", 1})
			drain(t, p)
			expectText(t, pool, "the documents of the others", "ann 2, bob 1", `SELECT string_agg(concat(key, ' ', doc ->> 'games'),
				', ' ORDER BY key) FROM tidemark_views.board`)
			expectText(t, pool, "what is behind", "dead permanent 2", `SELECT string_agg(concat_ws(' ', status, error_class, next_seq),
				', ') FROM tidemark.failed`)
			unfit := query[string](t, pool, `SELECT campaign_id FROM tidemark.failed`)
			if len(unfit) > 300 || !strings.Contains(unfit, "SHA-256") {
				t.Errorf("the key is held as %s", unfit)
			}
			retry(t, pool, p)
			expectText(t, pool, "what is behind after another attempt", "dead permanent 2", `SELECT string_agg(concat_ws(' ', status,
				error_class, next_seq), ', ') FROM tidemark.failed`)
		})
	}
}
