package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/publications"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/test/support/memory"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestAPublisherSendsSealedFieldsAsTheyAreUnlessItOpensThem(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	types, err := catalogue.New(catalogue.EventType{Name: "mailed", Subject: []string{"by"}, Personal: []string{"text"}})
	if err != nil {
		t.Fatal(err)
	}
	wrappers, err := catalogue.ParseWrappingKeys("a:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := catalogue.NewSealer(wrappers...)
	if err != nil {
		t.Fatal(err)
	}
	types = types.Sealed(sealer)
	appendMail := func() {
		if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := journal.Journal{Catalogue: types}.Append(t.Context(), tx, "a", journal.Any, event.Event{
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
		c.Catalogue, c.Publishers = types, []publisher.Publisher{*p, opens}
	}))
	eventually(t, "both have the event", func() bool { return len(closed.Received()) == 1 && len(open.Received()) == 1 })
	for name, sink := range map[string]*memory.Sink{"closed": closed, "open": open} {
		r := replayTo(sink)
		r.Catalogue, r.From, r.Until, r.To.OpenSealed = types, 1, 1, name == "open"
		if _, err := publisher.Replay(t.Context(), pool, r); err != nil {
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
	mustExec(t, pool, `DELETE FROM tidemark.keys WHERE subject = sha256('ann')`)
	mustExec(t, pool, `SELECT nextval('tidemark.erased')`)
	appendMail() // with another key
	eventually(t, "the later event arrives", func() bool { return len(open.Received()) == 3 })
	if got := string(open.Received()[2].Payload); !strings.Contains(got, "planted") {
		t.Errorf("after an erasure: %s", got)
	}
}

// An event that names a key that does not open is parked alone, and only where sealed fields are opened.
func TestAKeyThatDoesNotOpenParksItsEventAlone(t *testing.T) {
	t.Parallel()
	for by, status := range map[string]string{"a": "parked", "a wrapping key of nobody": "retrying"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t)
			types, err := catalogue.New(catalogue.EventType{Name: "mailed", Subject: []string{"by"}, Personal: []string{"text"}})
			if err != nil {
				t.Fatal(err)
			}
			wrappers, err := catalogue.ParseWrappingKeys("a:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
			if err != nil {
				t.Fatal(err)
			}
			sealer, err := catalogue.NewSealer(wrappers...)
			if err != nil {
				t.Fatal(err)
			}
			const id = "01a21831-0aaf-7001-9512-0e2cf06179e0"
			mustExec(t, pool, fmt.Sprintf(`SELECT tidemark.subject_keys(jsonb_build_array(jsonb_build_object('subject',
				encode(sha256('eve'), 'hex'), 'id', '%s', 'wrapped', encode(sha256('x') || sha256('y'), 'base64'), 'wrapped_by', '%s')))`,
				id, by))
			for _, campaign := range []string{"a", "bad", "b"} {
				j, e := journal.Journal{Catalogue: types.Sealed(sealer)}, event.Event{Type: "mailed", Payload: []byte(`{"by": "ann", "text": "planted"}`)}
				if campaign == "bad" {
					e.Payload = []byte(`{"by": "eve", "text": {"$sealed": "q83vq83vq83vq83vq83vq83vq83vq83vq83v", "key": "` + id + `"}}`)
				}
				if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					_, err := j.Append(t.Context(), tx, campaign, journal.Any, e)
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
			closed, open := &memory.Sink{}, &memory.Sink{}
			start(t, quick(pool, closed, func(c *publisher.Config, p *publisher.Publisher) {
				opens := *p
				opens.Name, opens.Sink, opens.OpenSealed = "open", open, true
				blocks := opens
				blocks.Name, blocks.Sink, blocks.OnRefusal, blocks.Attempts = "blocks", &memory.Sink{}, publisher.Block, 1
				c.Catalogue, c.Publishers = types.Sealed(sealer), []publisher.Publisher{*p, opens, blocks}
			}))
			eventually(t, "a publisher that blocks names the key", func() bool {
				return query[int](t, pool, `SELECT count(*) FROM tidemark.readers WHERE publisher = 'blocks'
					AND failing_since IS NOT NULL AND last_error LIKE '%key `+id+`%'`) == 1
			})
			eventually(t, "all others are sent", func() bool { return len(closed.Received()) == 3 && len(open.Received()) == 2 })
			eventually(t, "the event waits, and its key is named", func() bool {
				return query[int](t, pool, `SELECT count(*) FROM tidemark.parked WHERE campaign_id = 'bad' AND publisher = 'open'
					AND status = '`+status+`' AND error_message LIKE '%key `+id+`%'`) == 1
			})
			if n := query[int](t, pool, `SELECT count(*) FROM tidemark.parked WHERE publisher <> 'blocks'`); n != 1 {
				t.Errorf("%d events are parked", n)
			}
			if !query[bool](t, pool, `SELECT tidemark.forget_key('`+id+`', 'anna', 'it does not open')`) {
				t.Error("there was no key")
			}
			_, err = publications.Retry(t.Context(), pool, publications.ParkedFilter{CampaignID: "bad"}, anna())
			if err != nil && (status == "parked" || !errors.Is(err, publications.ErrNotFound)) { // it may have been retried by itself
				t.Fatal(err)
			}
			eventually(t, "the event is sent without the field", func() bool { return len(open.Received()) == 3 })
			if got := string(open.Received()[2].Payload); got != `{"by":"eve"}` && got != `{"by": "eve"}` {
				t.Errorf("sent %s", got)
			}
		})
	}
}

// service is a wrapping key that can be out of reach.
type service struct {
	catalogue.Wrapper
	away atomic.Bool
	errs atomic.Int64
}

func (s *service) Unwrap(ctx context.Context, wrapped, bound []byte) ([]byte, error) {
	if s.away.Load() {
		s.errs.Add(1)
		return nil, errors.New("the service is away")
	}
	return s.Wrapper.Unwrap(ctx, wrapped, bound)
}

func TestAPublisherThatOpensWaitsWhileItsKeyServiceIsAway(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	types, err := catalogue.New(catalogue.EventType{Name: "mailed", Subject: []string{"by"}, Personal: []string{"text"}})
	if err != nil {
		t.Fatal(err)
	}
	wrappers, err := catalogue.ParseWrappingKeys("a:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
	if err != nil {
		t.Fatal(err)
	}
	kms := &service{Wrapper: wrappers[0]}
	kms.away.Store(true)
	inAppends, err1 := catalogue.NewSealer(wrappers...)
	inWorker, err2 := catalogue.NewSealer(kms)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{Catalogue: types.Sealed(inAppends)}.Append(t.Context(), tx, "a", journal.Any, event.Event{
			Type: "mailed", Payload: []byte(`{"by": "ann", "text": "planted"}`),
		})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	closed, beside, open := &memory.Sink{}, &memory.Sink{}, &memory.Sink{}
	start(t, quick(pool, closed, func(c *publisher.Config, _ *publisher.Publisher) { c.Catalogue = types.Sealed(inWorker) }))
	start(t, quick(pool, beside, func(c *publisher.Config, p *publisher.Publisher) {
		opens := *p
		p.Name, opens.Name, opens.Sink, opens.OpenSealed = "beside", "open", open, true
		c.Catalogue, c.Publishers = types.Sealed(inWorker), []publisher.Publisher{*p, opens}
	}))
	eventually(t, "what opens nothing has sent, and the other one has tried again and again", func() bool {
		return len(closed.Received()) == 1 && len(beside.Received()) == 1 && kms.errs.Load() > 2
	})
	if n := query[int](t, pool, `SELECT count(*) FROM tidemark.parked WHERE status = 'retrying' AND attempt_count = 0`); n != 1 {
		t.Errorf("%d campaigns wait for the key", n)
	}
	if got := open.Received(); len(got) > 0 {
		t.Errorf("sent %s", got[0].Payload)
	}
	kms.away.Store(false)
	eventually(t, "it sends by itself", func() bool { return len(open.Received()) == 1 && len(beside.Received()) == 1 })
	if got := string(open.Received()[0].Payload); !strings.Contains(got, "planted") {
		t.Errorf("sent %s", got)
	}
}
