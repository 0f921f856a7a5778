package roles_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/erasure"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

func TestKeysAreForThoseWhoNeedThem(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	wrappers, err := catalogue.ParseWrappingKeys(`b:MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=
		a:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=`)
	must(t, err)
	sealer, err := catalogue.NewSealer(wrappers[1])
	must(t, err)
	types, err := catalogue.New(catalogue.EventType{Name: "noted", Subject: []string{"by"}, Personal: []string{"text"}})
	must(t, err)
	types = types.Sealed(sealer)
	appender, worker, operator := in.as(t, "appender"), in.as(t, "worker"), in.as(t, "operator")
	for range 2 { // the key is created, and found
		must(t, pgx.BeginFunc(t.Context(), appender, func(tx pgx.Tx) error {
			_, err := journal.Journal{Catalogue: types}.Append(t.Context(), tx, "c", journal.Any,
				event.Event{Type: "noted", Payload: []byte(`{"by": "ann", "text": "planted"}`)})
			return err
		}))
	}
	wrong, err := catalogue.ParseWrappingKeys("a:MjM0NTY3ODkwMTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM=")
	must(t, err)
	wrongSealer, err := catalogue.NewSealer(wrong...)
	must(t, err)
	for _, by := range []string{"ann", "zoe"} { // one has a key
		must(t, pgx.BeginFunc(t.Context(), appender, func(tx pgx.Tx) error {
			_, err := journal.Journal{Catalogue: types.Sealed(wrongSealer)}.Append(t.Context(), tx, "c", journal.Any,
				event.Event{Type: "noted", Payload: []byte(`{"by": "` + by + `", "text": "planted"}`)})
			if !errors.Is(err, catalogue.ErrWrappingKey) || errors.Is(err, catalogue.ErrBrokenKey) {
				t.Errorf("an appender with another wrapping key appends of %s: %v", by, err)
			}
			_, err = tx.Exec(t.Context(), "SELECT") // it may not compare keys, and its transaction goes on
			return err
		}))
	}
	const known, replace = "SELECT FROM tidemark.wrapping_keys", "SELECT FROM tidemark.trust_wrapping_key('a', encode(sha256('x'), 'base64'))"
	refuses(t, appender, known, replace, "DELETE FROM tidemark.wrapping_keys")
	process, publisher := in.as(t, "process"), in.as(t, "publisher")
	refuses(t, process, replace, "DELETE FROM tidemark.wrapping_keys")
	refuses(t, worker, replace, "DELETE FROM tidemark.wrapping_keys", "UPDATE tidemark.wrapping_keys SET check_value = sha256('x')",
		"SELECT tidemark.wrapping_key('c', encode(sha256('x'), 'base64'))")
	refuses(t, publisher, known, replace, "SELECT tidemark.wrapping_key('c', '')")
	refuses(t, operator, "UPDATE tidemark.wrapping_keys SET check_value = sha256('x')", "DELETE FROM tidemark.wrapping_keys")
	// An appender records garbage for a wrapping key that is still to come.
	_, err = appender.Exec(t.Context(), "SELECT tidemark.wrapping_key(name, encode(sha256('x'), 'base64')) FROM (VALUES ('a'), ('b')) v (name)")
	must(t, err)
	e, err := journal.Get(t.Context(), sealer.Reading(worker), "c", 1)
	must(t, err)
	if text, err := event.Decode[struct{ Text string }](e); err != nil || text.Text != "planted" {
		t.Errorf("a worker reads %+v, %v", text, err)
	}
	both, err := catalogue.NewSealer(wrappers...)
	must(t, err)
	if n, err := both.Rotate(t.Context(), operator); !errors.Is(err, catalogue.ErrWrappingKey) {
		t.Errorf("an operator rotates %d keys by a key that is not known, %v", n, err)
	}
	_, _, err = both.Trust(t.Context(), operator, "b")
	must(t, err)
	if n, err := both.Rotate(t.Context(), operator); n != 1 || err != nil {
		t.Errorf("an operator rotates %d keys, %v", n, err)
	}
	const all = "SELECT FROM tidemark.keys"
	refuses(t, appender, all, "SELECT tidemark.forget_keys(1, 1, '{ann}')", "DELETE FROM tidemark.keys")
	const forget = "SELECT tidemark.forget_key('01a21831-0aaf-7001-9512-0e2cf06179e0', 'eve', 'x')"
	refuses(t, appender, forget)
	refuses(t, process, forget)
	refuses(t, worker, forget, "DELETE FROM tidemark.keys", "UPDATE tidemark.keys SET wrapped = ''",
		"SELECT tidemark.forget_keys(1, 1, '{ann}')", "TRUNCATE tidemark.keys")
	refuses(t, publisher, all, forget,
		"SELECT tidemark.forget_keys(1, 1, '{ann}')", "SELECT tidemark.subject_keys('[]')")
	refuses(t, in.as(t, "reader"), all, forget, "SELECT tidemark.subject_keys('[]')")
	refuses(t, operator, "DELETE FROM tidemark.keys", "UPDATE tidemark.keys SET subject = ''")
	if e, err := journal.Get(t.Context(), both.Reading(publisher), "c", 1); err == nil {
		t.Errorf("a publisher without the grant of docs/guides/sealing.md reads %s", e.Payload)
	}
	_, err = in.admin.Exec(t.Context(), "GRANT SELECT ON tidemark.keys TO "+in.prefix+"_publisher")
	must(t, err)
	if e, err := journal.Get(t.Context(), both.Reading(publisher), "c", 1); err != nil ||
		!strings.Contains(string(e.Payload), "planted") {
		t.Errorf("a publisher with it reads %s, %v", e.Payload, err)
	}
	refuses(t, publisher, "DELETE FROM tidemark.keys", "UPDATE tidemark.keys SET wrapped = ''", forget)
	c, err := erasure.Erase(t.Context(), operator, erasure.Request{
		Subjects: []string{"ann"}, Catalogue: types, By: "anna", Reason: "a request",
	})
	must(t, err)
	if c.Keys != 1 || c.Events != 2 {
		t.Errorf("an operator erases %d keys and %d events", c.Keys, c.Events)
	}
}
