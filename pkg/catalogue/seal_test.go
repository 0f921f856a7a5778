package catalogue_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/catalogue/jsonschema"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

// Two wrapping keys, and another one with the name of the first.
const (
	wrappingKey      = "2025:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
	newerWrappingKey = "2026:MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI="
	wrongWrappingKey = "2025:MjM0NTY3ODkwMTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM="
)

// vault is a database whose journal is sealed.
type vault struct {
	*pgxpool.Pool
	t       *testing.T
	sealer  *catalogue.Sealer
	journal journal.Journal
}

func newVault(t *testing.T) *vault {
	t.Helper()
	return (&vault{Pool: pgtest.New(t), t: t}).with(wrappingKey)
}

func sealerWith(t *testing.T, keys ...string) *catalogue.Sealer {
	t.Helper()
	wrappers, err := catalogue.ParseWrappingKeys(strings.Join(keys, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := catalogue.NewSealer(wrappers...)
	if err != nil {
		t.Fatal(err)
	}
	return sealer
}

// with returns another program on the database, with some wrapping keys.
func (v *vault) with(keys ...string) *vault {
	v.t.Helper()
	other := *v
	other.sealer = sealerWith(v.t, keys...)
	other.journal = journal.Journal{Catalogue: sealedCatalogue(v.t, other.sealer)}
	return &other
}

func sealedCatalogue(t *testing.T, sealer *catalogue.Sealer) *catalogue.Catalogue {
	t.Helper()
	types, err := catalogue.New(catalogue.EventType{
		Name: "ordered", Version: 2, Aliases: []string{"bought"},
		Upcast:  map[int]catalogue.Upcaster{1: catalogue.Move("name", "customer")},
		Subject: []string{"customer", "name"}, Personal: []string{"customer", "name", "email", "address.street"},
		Schema: jsonschema.MustCompile(`{"properties": {"customer": {"type": "string"}, "address": {"type": "object"}}}`),
	}, catalogue.EventType{Name: "noted", Subject: []string{"by"}, Personal: []string{"text"}})
	if err != nil {
		t.Fatal(err)
	}
	return types.Sealed(sealer)
}

func planted(customer string) string { return "planted-" + customer }

func ordered(customer string, amount int) event.Event {
	return event.Event{Type: "ordered", Payload: fmt.Appendf(nil,
		`{"customer": %q, "email": {"to": [%q]}, "address": {"street": %q, "city": "Oslo"}, "amount": %d}`,
		planted(customer), planted(customer), planted(customer), amount)}
}

func (v *vault) within(work func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(v.t.Context(), v.Pool, work)
}

func (v *vault) append(campaign string, events ...event.Event) {
	v.t.Helper()
	if err := v.within(func(tx pgx.Tx) error {
		_, err := v.journal.Append(v.t.Context(), tx, campaign, journal.Any, events...)
		return err
	}); err != nil {
		v.t.Fatal(err)
	}
}

func (v *vault) value(sql string, args ...any) (text string) {
	v.t.Helper()
	if err := v.QueryRow(v.t.Context(), `SELECT coalesce((`+sql+`)::text, '')`, args...).Scan(&text); err != nil {
		v.t.Fatalf("%s: %v", sql, err)
	}
	return text
}

// everywhere returns the tables that have a row with the text.
func (v *vault) everywhere(text string) (tables []string) {
	v.t.Helper()
	for table := range strings.FieldsSeq(v.value(`SELECT string_agg(c.oid::regclass::text, ' ') FROM pg_class c
		JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND n.nspname !~ '^(pg_|information_schema)'`)) {
		if v.value(`SELECT count(*) FROM `+table+` t WHERE strpos(t::text, $1) > 0 OR strpos(t::text, encode(convert_to($1, 'UTF8'), 'hex')) > 0`,
			text) != "0" {
			tables = append(tables, table)
		}
	}
	return tables
}

// forget erases a subject's key, as pkg/erasure does.
func (v *vault) forget(customer string) {
	v.t.Helper()
	if _, err := v.Exec(v.t.Context(), `DELETE FROM tidemark.keys WHERE subject = sha256(convert_to($1, 'UTF8'))`,
		planted(customer)); err != nil {
		v.t.Fatal(err)
	}
	v.value(`SELECT nextval('tidemark.erased')`)
}

// read returns the whole journal's payloads, open.
func (v *vault) read() (payloads []string, events []event.Event) {
	v.t.Helper()
	for e, err := range journal.ReadAll(v.t.Context(), v.sealer.Reading(v.Pool), 0) {
		if err != nil {
			v.t.Fatal(err)
		}
		payloads, events = append(payloads, string(e.Payload)), append(events, e)
	}
	return payloads, events
}

func TestPersonalFieldsAreSealedAtRestAndOpenInEveryRead(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	ctx := t.Context()
	e := ordered("ann", 1)
	db := stdlib.OpenDBFromPool(v.Pool)
	defer func() { _ = db.Close() }()
	err := v.within(func(tx pgx.Tx) error {
		_, appended := v.journal.Append(ctx, tx, "shop", journal.Any, e)
		_, all := v.journal.AppendAll(ctx, tx, journal.Batch{CampaignID: "shop", Events: []event.Event{e}})
		of := e
		of.CampaignID = "shop"
		_, conditional := v.journal.AppendIf(ctx, tx, []event.Event{of}, journal.Condition{FailIfMatch: event.Types("none")})
		_, scheduled := v.journal.AppendAt(ctx, tx, "shop", time.Now().Add(-time.Second), e)
		return errors.Join(appended, all, conditional, scheduled)
	})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = v.journal.Append(ctx, journal.SQL(tx), "shop", journal.Any, e)
	if err = errors.Join(err, tx.Commit()); err != nil {
		t.Fatal(err)
	}
	if found := v.everywhere(planted("ann")); len(found) > 0 {
		t.Errorf("%s has the plain text", found)
	}
	if keys := v.value(`SELECT count(*) FROM tidemark.keys`); keys != "1" {
		t.Errorf("%s keys", keys)
	}
	v.value(`SELECT fired FROM tidemark.fire_scheduled(100, NULL, '-infinity', 0, '{}', '1s', false)`)

	open := v.sealer.Reading(v.Pool)
	get, err1 := journal.Get(ctx, open, "shop", 1)
	last, err2 := journal.Last(ctx, open, "shop")
	find, err3 := journal.Find(ctx, open, "shop", get.ID)
	reads, err4 := journal.Read(ctx, open, event.Types("ordered"), 0, 10)
	loaded, _, err5 := journal.Load(ctx, open, "shop", func(all *[]event.Event, e event.Event) error {
		*all = append(*all, e)
		return nil
	})
	decided, _, err6 := journal.Decide(ctx, open, event.Types("ordered"), func(all *[]event.Event, e event.Event) error {
		*all = append(*all, e)
		return nil
	})
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		t.Fatal(err)
	}
	_, all := v.read()
	if len(all) != 5 || len(reads) != 5 || len(loaded) != 5 || len(decided) != 5 {
		t.Fatalf("%d, %d, %d and %d events, want 5", len(all), len(reads), len(loaded), len(decided))
	}
	for _, read := range slices.Concat([]event.Event{get, last, find}, reads, loaded, decided, all) {
		if !sameJSON(t, read.Payload, e.Payload) || read.Erased() {
			t.Errorf("read %s, erased %t", read.Payload, read.Erased())
		}
	}
	sealed, err := journal.Get(ctx, v.Pool, "shop", 1)
	if err != nil || !bytes.Contains(sealed.Payload, []byte(`"$sealed"`)) || !bytes.Contains(sealed.Payload, []byte("Oslo")) {
		t.Errorf("stored %s, %v", sealed.Payload, err)
	}
}

func TestARepeatedAppendOfASealedEventIsRecognised(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	e := ordered("ann", 1)
	e.ID = uuid.New()
	for i := range 2 {
		if err := v.within(func(tx pgx.Tx) error {
			places, err := v.journal.Append(t.Context(), tx, "shop", journal.Any, e)
			if err == nil && places[0].Duplicate != (i == 1) {
				err = fmt.Errorf("append %d: %+v", i, places)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWithoutItsKeyAFieldIsAbsentAlsoInACopyOfTheDatabase(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.append("shop", ordered("ann", 1), ordered("bob", 2))
	before, _ := v.read() // the keys are in memory now
	copied := v.copyWithoutKeys()
	v.forget("ann")
	for _, where := range []struct {
		name string
		*vault
	}{
		{"here", v},
		{"in another program", v.with(wrappingKey)},
		{"in the copy", copied.with(wrappingKey)},
		{"in the copy, with a memory of keys", copied},
	} {
		name, database := where.name, where.vault
		payloads, events := database.read()
		if len(payloads) != 2 {
			t.Fatalf("%s: %d events", name, len(payloads))
		}
		if !events[0].Erased() || payloads[0] != `{"address":{"city": "Oslo"},"amount":1}` &&
			payloads[0] != `{"address":{"city":"Oslo"},"amount":1}` {
			t.Errorf("%s: read %s, erased %t", name, payloads[0], events[0].Erased())
		}
		if keysThere := database.Pool == v.Pool; keysThere && (events[1].Erased() || payloads[1] != before[1]) {
			t.Errorf("%s: another subject's event is %s, erased %t", name, payloads[1], events[1].Erased())
		}
	}
	v.append("shop", ordered("ann", 3))
	if payloads, events := v.read(); events[2].Erased() || !strings.Contains(payloads[2], planted("ann")) || !events[0].Erased() {
		t.Errorf("a later append of the subject has another key: %s", payloads[2])
	}
}

// copyWithoutKeys returns a copy of the database's tables, as from a backup without tidemark.keys.
func (v *vault) copyWithoutKeys() *vault {
	v.t.Helper()
	other := *v
	other.Pool = pgtest.New(v.t)
	for table := range strings.FieldsSeq("journal event_tags") {
		var data bytes.Buffer
		from, err := v.Acquire(v.t.Context())
		if err != nil {
			v.t.Fatal(err)
		}
		_, err = from.Conn().PgConn().CopyTo(v.t.Context(), &data, "COPY tidemark."+table+" TO STDOUT")
		from.Release()
		if err != nil {
			v.t.Fatal(err)
		}
		to, err := other.Acquire(v.t.Context())
		if err != nil {
			v.t.Fatal(err)
		}
		_, err = to.Conn().PgConn().CopyFrom(v.t.Context(), &data, "COPY tidemark."+table+" FROM STDIN")
		to.Release()
		if err != nil {
			v.t.Fatal(err)
		}
	}
	other.value(`SELECT setval('tidemark.journal_position', (SELECT max("position") FROM tidemark.journal))`)
	return &other
}

func TestWrappingKeysRotateWhileTheyAreUsed(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	for i := range 450 {
		v.value(`SELECT count(*) FROM tidemark.subject_keys('[]')`)
		if i%150 == 0 {
			events := make([]event.Event, 150)
			for n := range events {
				events[n] = ordered(fmt.Sprint("customer", i+n), n)
			}
			v.append("shop", events...)
		}
	}
	both := v.with(newerWrappingKey, wrappingKey)
	interrupted, stop := context.WithCancel(t.Context())
	n, err := both.sealer.Rotate(interrupted, stopping{both.Pool, stop})
	if err == nil || n != 200 || v.value(`SELECT count(*) FROM tidemark.keys WHERE wrapped_by = '2026'`) != "200" {
		t.Fatalf("interrupted: %d keys, %v", n, err)
	}
	both.append("shop", ordered("customer1", 1), ordered("carl", 1)) // an old key and a new one, beside the rotation
	both.read()
	n, err = both.sealer.Rotate(t.Context(), both.Pool)
	if err != nil || n != 250 {
		t.Fatalf("resumed: %d keys, %v", n, err)
	}
	if n, err = both.sealer.Rotate(t.Context(), both.Pool); err != nil || n != 0 {
		t.Fatalf("repeated: %d keys, %v", n, err)
	}
	if payloads, _ := v.with(newerWrappingKey).read(); len(payloads) != 452 || !strings.Contains(payloads[451], planted("carl")) {
		t.Errorf("with the new key alone: %d events", len(payloads))
	}
}

// TestARotationLeavesKeysThatDoNotOpenAndWrapsTheOthers plants them before and behind the others.
func TestARotationLeavesKeysThatDoNotOpenAndWrapsTheOthers(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	const first, last = "00000000-0000-4000-8000-000000000000", "ffffffff-ffff-4fff-bfff-ffffffffffff"
	v.append("shop", ordered("ann", 1), ordered("bob", 1))
	v.value(`SELECT count(*) FROM unnest(ARRAY[$1, $2]::text[]) AS id, tidemark.subject_keys(jsonb_build_array(
		jsonb_build_object('subject', encode(sha256(id::bytea), 'hex'), 'id', id, 'wrapped',
			encode(sha256('garbage') || sha256('x'), 'base64'), 'wrapped_by', '2025')))`, first, last)
	n, err := v.with(newerWrappingKey, wrappingKey).sealer.Rotate(t.Context(), v.Pool)
	if n != 2 || !errors.Is(err, catalogue.ErrBrokenKey) || !strings.Contains(err.Error(), first) ||
		!strings.Contains(err.Error(), last) {
		t.Errorf("%d keys are wrapped anew, want 2 and an error that names both others: %v", n, err)
	}
	if left := v.value(`SELECT string_agg(id::text, ' ' ORDER BY id) FROM tidemark.keys WHERE wrapped_by = '2025'
		AND wrapped = sha256('garbage') || sha256('x')`); left != first+" "+last {
		t.Errorf("%q are left as they were", left)
	}
	if payloads, _ := v.with(newerWrappingKey).read(); !strings.Contains(payloads[1], planted("bob")) {
		t.Errorf("read %s", payloads)
	}
}

// stopping ends the context after the first rows are changed.
type stopping struct {
	*pgxpool.Pool
	stop func()
}

func (s stopping) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if rows, err := s.Pool.Query(ctx, sql, args...); err != nil || !strings.Contains(sql, "rewrap_keys") {
		return rows, err
	} else {
		rows.Close()
		s.stop()
		return s.Pool.Query(context.WithoutCancel(ctx), `SELECT 200::bigint`)
	}
}

func TestAWrongOrMissingWrappingKeyIsNamedAndNothingIsWritten(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.append("shop", ordered("ann", 1))
	id := v.value(`SELECT id FROM tidemark.keys`)
	for keys, want := range map[string]struct {
		remedy string
		is     error
	}{
		newerWrappingKey: {"add it to its wrapping keys", catalogue.ErrWrappingKey},
		wrongWrappingKey: {"if that is the right one", catalogue.ErrBrokenKey},
	} {
		other := v.with(keys)
		err := other.within(func(tx pgx.Tx) error {
			_, err := other.journal.Append(t.Context(), tx, "shop", journal.Any, ordered("bob", 1), ordered("ann", 2))
			return err
		})
		_, read := journal.Get(t.Context(), other.sealer.Reading(v.Pool), "shop", 1)
		_, rotated := v.with(wrappingKey, newerWrappingKey).sealer.Rotate(t.Context(), v.Pool)
		for _, err := range []error{err, read} {
			if !errors.Is(err, want.is) || !strings.Contains(err.Error(), id) ||
				!strings.Contains(err.Error(), want.remedy) || !strings.Contains(err.Error(), `"2025"`) {
				t.Errorf("with %s: %v", keys[:4], err)
			}
		}
		if rotated != nil {
			t.Error(rotated)
		}
	}
	if n := v.value(`SELECT (SELECT count(*) FROM tidemark.journal) || ' ' || (SELECT count(*) FROM tidemark.keys)`); n != "1 1" {
		t.Errorf("%s events and keys", n)
	}
}

// TestPlantedKeysDoNotHideThatTheWrappingKeyIsRight plants keys that do not open, whose ids are the first ones.
func TestPlantedKeysDoNotHideThatTheWrappingKeyIsRight(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	for n := range 30 {
		v.append("shop", ordered(fmt.Sprint("ann", n), 1))
	}
	v.value(`SELECT count(*) FROM generate_series(0, 9) AS n, tidemark.subject_keys(jsonb_build_array(jsonb_build_object(
		'subject', encode(sha256(n::text::bytea), 'hex'), 'id', '00000000-0000-4000-8000-00000000000' || n,
		'wrapped', encode(sha256('garbage') || sha256('x'), 'base64'), 'wrapped_by', '2025')))`)
	if _, err := v.Exec(t.Context(), `UPDATE tidemark.keys SET wrapped = sha256('garbage') || sha256('x')
			WHERE subject = sha256(convert_to($1, 'UTF8'))`, planted("ann0")); err != nil {
		t.Fatal(err)
	}
	_, err := journal.Get(t.Context(), v.with(wrappingKey).sealer.Reading(v.Pool), "shop", 1)
	if !errors.Is(err, catalogue.ErrBrokenKey) || errors.Is(err, catalogue.ErrWrappingKey) {
		t.Error(err)
	}
}

// TestAnotherWrappingKeyOfTheSameNameIsNotTheFaultOfAKey reads and appends with one that opens none of several keys.
func TestAnotherWrappingKeyOfTheSameNameIsNotTheFaultOfAKey(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.append("shop", ordered("ann", 1), ordered("bob", 1), ordered("eve", 1))
	wrong := v.with(wrongWrappingKey)
	for seq := range int64(3) {
		_, err := journal.Get(t.Context(), wrong.sealer.Reading(v.Pool), "shop", seq+1)
		if !errors.Is(err, catalogue.ErrWrappingKey) || errors.Is(err, catalogue.ErrBrokenKey) ||
			!strings.Contains(err.Error(), "nor does any other") {
			t.Errorf("event %d: %v", seq+1, err)
		}
	}
	db := stdlib.OpenDBFromPool(v.Pool)
	defer func() { _ = db.Close() }()
	// A new person's key, which the wrong one opens, does not say that it is the right one.
	events := []event.Event{ordered("zoe", 1), ordered("ann", 2)}
	for name, appends := range map[string]func(by *vault) error{
		"pgx": func(by *vault) error { return by.try(t.Context(), events...) },
		"database/sql": func(by *vault) error {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				return err
			}
			_, err = by.journal.Append(t.Context(), journal.SQL(tx), "shop", journal.Any, events...)
			return errors.Join(err, tx.Rollback())
		},
	} {
		if err := appends(v.with(wrongWrappingKey)); !errors.Is(err, catalogue.ErrWrappingKey) ||
			errors.Is(err, catalogue.ErrBrokenKey) || !strings.Contains(err.Error(), "nor does any other") {
			t.Errorf("an append by %s: %v", name, err)
		}
	}
}

func TestASealedFieldThatWasMovedOrChangedIsRefused(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.append("shop", ordered("ann", 1))
	stored, err := journal.Get(t.Context(), v.Pool, "shop", 1)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(stored.Payload, &fields); err != nil {
		t.Fatal(err)
	}
	for name, e := range map[string]event.Event{
		"to another event":    {Payload: stored.Payload},
		"to another field":    {ID: stored.ID, Payload: fmt.Appendf(nil, `{"email": %s}`, fields["customer"])},
		"to another campaign": {ID: stored.ID, Payload: stored.Payload},
		"changed":             {ID: stored.ID, Payload: bytes.Replace(stored.Payload, []byte(`"$sealed": "`), []byte(`"$sealed": "AAAA`), 1)},
	} {
		other := v.copyWithoutKeys()
		other.value(`SELECT count(*) FROM tidemark.subject_keys('[]')`)
		e.Type = "ordered"
		campaign := map[bool]string{true: "market", false: "shop"}[name == "to another campaign"]
		if err := pgx.BeginFunc(t.Context(), other.Pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`)
			if err == nil {
				_, err = tx.Exec(t.Context(), `DELETE FROM tidemark.journal`)
			}
			if err == nil {
				_, err = journal.Journal{}.Append(t.Context(), tx, campaign, journal.Any, e)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		v.copyKeysTo(other)
		n := 0
		for _, err := range journal.ReadAll(t.Context(), other.sealer.Reading(other.Pool), 0) {
			if n++; err == nil || !strings.Contains(err.Error(), "was moved or changed") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d events", name, n)
		}
	}
}

func (v *vault) copyKeysTo(other *vault) {
	v.t.Helper()
	other.value(`SELECT count(*) FROM tidemark.keys`)
	var id, subject, wrapped, by string
	if err := v.QueryRow(v.t.Context(), `SELECT id::text, encode(subject, 'hex'), encode(wrapped, 'base64'), wrapped_by
		FROM tidemark.keys`).Scan(&id, &subject, &wrapped, &by); err != nil {
		v.t.Fatal(err)
	}
	other.value(`SELECT count(*) FROM tidemark.subject_keys(jsonb_build_array(jsonb_build_object('id', $1::text,
		'subject', $2::text, 'wrapped', $3::text, 'wrapped_by', $4::text)))`, id, subject, wrapped, by)
}

func TestConcurrentFirstAppendsOfSubjectsCreateOneKeyEach(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	var all sync.WaitGroup
	for n := range 12 {
		all.Go(func() {
			other := v.with(wrappingKey)
			events := []event.Event{ordered("ann", n), ordered("bob", n)}
			if n%2 == 0 {
				slices.Reverse(events)
			}
			if err := v.within(func(tx pgx.Tx) error {
				_, err := other.journal.Append(t.Context(), tx, fmt.Sprint("shop", n), journal.Any, events...)
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if keys := v.value(`SELECT count(*) FROM tidemark.keys`); keys != "2" {
		t.Errorf("%s keys of two subjects", keys)
	}
	if payloads, _ := v.read(); len(payloads) != 24 || !strings.Contains(strings.Join(payloads, ""), planted("ann")) {
		t.Errorf("%d events", len(payloads))
	}
}

func TestAFirstAppendTakesTheKeyOfAnotherThatCommitsBeforeIt(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	later := make(chan error, 1)
	if err := v.within(func(tx pgx.Tx) error {
		if _, err := v.journal.Append(t.Context(), tx, "shop", journal.Any, ordered("ann", 1)); err != nil {
			return err
		}
		go func() {
			other := v.with(wrappingKey)
			later <- other.within(func(tx pgx.Tx) error {
				_, err := other.journal.Append(t.Context(), tx, "market", journal.Any, ordered("ann", 2))
				return err
			})
		}()
		eventually(t, "the other append waits", func() bool {
			return v.value(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == "1"
		})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-later; err != nil {
		t.Fatal(err)
	}
	if payloads, _ := v.with(wrappingKey).read(); len(payloads) != 2 || !strings.Contains(payloads[1], planted("ann")) {
		t.Errorf("read %s", payloads)
	}
}

func TestAnAppendThatIsRolledBackLeavesNothing(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	undone := errors.New("undone")
	if err := v.within(func(tx pgx.Tx) error {
		if _, err := v.journal.Append(t.Context(), tx, "shop", journal.Any, ordered("ann", 1)); err != nil {
			return err
		}
		return undone
	}); !errors.Is(err, undone) {
		t.Fatal(err)
	}
	if n := v.value(`SELECT count(*) FROM tidemark.keys`); n != "0" {
		t.Errorf("%s keys", n)
	}
	v.append("shop", ordered("ann", 2)) // not with the key that was rolled back
	if payloads, events := v.read(); len(payloads) != 1 || events[0].Erased() {
		t.Errorf("read %s", payloads)
	}
}

func TestAPersonalFieldWithoutASubjectIsRefused(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	for payload, want := range map[string]string{
		`{"email": "a@b.c"}`:                 "has personal fields (email) and no subject (customer, name)",
		`{"email": "a@b.c", "customer": ""}`: "no subject",
		`{"name": ["x"], "email": "a@b.c"}`:  "must be string",
	} {
		err := v.within(func(tx pgx.Tx) error {
			_, err := v.journal.Append(t.Context(), tx, "shop", journal.Any, event.Event{Type: "bought", Version: 1, Payload: []byte(payload)})
			return err
		})
		refused := new(journal.InvalidEventError)
		if !errors.As(err, &refused) || refused.Campaign != "shop" || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "a@b.c") {
			t.Errorf("%s: %v", payload, err)
		}
	}
	if _, err := v.journal.Encode(t.Context(), nil, "shop", []event.Event{ordered("ann", 1)}); err == nil ||
		!strings.Contains(err.Error(), "Journal.Encode") {
		t.Errorf("encoded without a transaction: %v", err)
	}
	v.append("shop", event.Event{Type: "ordered", Payload: []byte(`{"amount": 1}`)}, event.Event{Type: "noted"},
		event.Event{Type: "noted", Payload: []byte(`{"by": 7, "text": "planted"}`)}, event.Event{Type: "unknown"})
	if keys := v.value(`SELECT count(*) FROM tidemark.keys WHERE subject = sha256('7')`); keys != "1" {
		t.Errorf("a number as a subject has %s keys", keys)
	}
}

// counting counts statements.
type counting struct {
	*pgxpool.Pool
	n *int
}

func (c counting) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	*c.n++
	return c.Pool.Query(ctx, sql, args...)
}

func TestAReadAsksForKeysOnceAPage(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	events := make([]event.Event, 200)
	for i := range events {
		events[i] = ordered(fmt.Sprint("customer", i), i)
	}
	v.append("shop", events...)
	v.append("plain", event.Event{Type: "unknown"})
	v = v.with(wrappingKey)
	for _, want := range []struct {
		campaign string
		n        int
	}{{"shop", 3}, {"shop", 3}, {"", 0}, {"shop", 4}, {"plain", 2}} { // two pages, keys, and keys again after an erasure
		n := 0
		if want.campaign == "" {
			v.forget("customer7")
			continue
		}
		for _, err := range journal.ReadCampaign(t.Context(), v.sealer.Reading(counting{v.Pool, &n}), want.campaign, 0) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if n != want.n {
			t.Errorf("%s: %d statements, want %d", want.campaign, n, want.n)
		}
	}
}

func TestAnOldSnapshotDoesNotBringADeletedKeyBack(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.append("shop", ordered("ann", 1), ordered("bob", 1))
	if err := pgx.BeginTxFunc(t.Context(), v.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT 1 FROM tidemark.keys`); err != nil {
			return err
		}
		v.forget("ann")
		if _, err := journal.Get(t.Context(), v.sealer.Reading(v.Pool), "shop", 2); err != nil { // knows of the erasure
			return err
		}
		e, err := journal.Get(t.Context(), v.sealer.Reading(tx), "shop", 1)
		if err == nil && e.Erased() {
			err = errors.New("the snapshot does not have the key")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if payloads, events := v.read(); !events[0].Erased() {
		t.Errorf("read %s", payloads[0])
	}
}
