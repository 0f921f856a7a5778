package publisher_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestAPublisherSendsSealedFieldsAsTheyAreUnlessItOpensThem(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	types, err := journal.NewCatalogue(journal.EventType{Name: "mailed", Subject: []string{"by"}, Personal: []string{"text"}})
	if err != nil {
		t.Fatal(err)
	}
	wrappers, err := journal.ParseWrappingKeys("a:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := journal.NewSealer(wrappers...)
	if err != nil {
		t.Fatal(err)
	}
	catalogue := types.Sealed(sealer)
	appendMail := func() {
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := journal.New(catalogue).Append(t.Context(), tx, "a", journal.Any, journal.Event{
				Type:    "mailed",
				Payload: []byte(`{"by": "ann", "text": "planted"}`),
			})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	appendMail()
	closed, open := &memory.Sink{}, &memory.Sink{}
	start(t, quick(pool, closed, func(c *publisher.Config, p *publisher.Publisher) {
		opens := *p
		opens.Name, opens.Sink, opens.OpenSealed = "open", open, true
		c.Catalogue, c.Publishers = catalogue, []publisher.Publisher{*p, opens}
	}))
	eventually(t, "both have the event", func() bool { return len(closed.Received()) == 1 && len(open.Received()) == 1 })
	for name, sink := range map[string]*memory.Sink{"closed": closed, "open": open} {
		r := replayTo(sink)
		r.Catalogue, r.From, r.Until, r.To.OpenSealed = catalogue, 1, 1, name == "open"
		if _, err := publisher.Replay(t.Context(), pool, r, anna()); err != nil {
			t.Fatal(err)
		}
		for _, r := range sink.Received() {
			if strings.Contains(string(r.Payload), "planted") != (name == "open") ||
				strings.Contains(string(r.Payload), "$sealed") != (name == "closed") {
				t.Errorf("%s: %s", name, r.Payload)
			}
		}
		if n := len(sink.Received()); n != 2 {
			t.Errorf("%s: %d events", name, n)
		}
	}
	mustExec(t, pool, `SELECT tidemark.forget_keys('{ann}'), nextval('tidemark.erased')`)
	appendMail() // with another key
	eventually(t, "the later event arrives", func() bool { return len(open.Received()) == 3 })
	if got := string(open.Received()[2].Payload); !strings.Contains(got, "planted") {
		t.Errorf("after an erasure: %s", got)
	}
}
