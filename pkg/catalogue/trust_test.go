package catalogue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// wrongNewerKey is another key with the name of newerWrappingKey.
const wrongNewerKey = "2026:MjM0NTY3ODkwMTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM="

// refusesNew expects that the program appends no event of a new person, and writes nothing.
func (v *vault) refusesNew(what, person string) {
	v.t.Helper()
	before := v.counts()
	err := v.try(v.t.Context(), ordered(person, 1))
	if !errors.Is(err, catalogue.ErrWrappingKey) || errors.Is(err, catalogue.ErrBrokenKey) {
		v.t.Errorf("%s: %v", what, err)
	}
	if after := v.counts(); after != before {
		v.t.Errorf("%s: %s events and keys, %s before", what, after, before)
	}
}

// TestAnotherWrappingKeyOfTheSameNameWrapsNoKey appends of new persons alone, so that no key tells which one is right.
func TestAnotherWrappingKeyOfTheSameNameWrapsNoKey(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.append("shop", ordered("ann", 1))
	wrong := v.with(wrongWrappingKey)
	wrong.refusesNew("by pgx", "zoe")
	before := v.counts()
	db := stdlib.OpenDBFromPool(v.Pool)
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = wrong.journal.Append(t.Context(), journal.SQL(tx), "shop", journal.Any, ordered("zoe", 1))
	if !errors.Is(err, catalogue.ErrWrappingKey) || !strings.Contains(err.Error(), `tidemark keys trust "2025"`) {
		t.Errorf("by database/sql: %v", err)
	}
	if err := tx.Commit(); err != nil { // the transaction goes on
		t.Error(err)
	}
	if after := v.counts(); after != before {
		t.Errorf("%s events and keys, %s before", after, before)
	}
	v.with(wrappingKey).append("shop", ordered("zoe", 1))
	v.with(newerWrappingKey).append("shop", ordered("eve", 1)) // another name
	if payloads, _ := v.with(newerWrappingKey, wrappingKey).read(); len(payloads) != 3 || !strings.Contains(payloads[1], planted("zoe")) ||
		!strings.Contains(payloads[2], planted("eve")) {
		t.Errorf("read %s", payloads)
	}
}

// TestARotationWrapsNothingByAnotherKeyOfTheSameName has the new wrapping key in use already.
func TestARotationWrapsNothingByAnotherKeyOfTheSameName(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.append("shop", ordered("ann", 1))
	v.with(newerWrappingKey, wrappingKey).append("shop", ordered("bob", 1))
	n, err := v.with(wrongNewerKey, wrappingKey).sealer.Rotate(t.Context(), v.Pool)
	if n != 0 || !errors.Is(err, catalogue.ErrWrappingKey) {
		t.Errorf("%d keys are wrapped anew: %v", n, err)
	}
	if n, err = v.with(newerWrappingKey, wrappingKey).sealer.Rotate(t.Context(), v.Pool); n != 1 || err != nil {
		t.Errorf("%d keys are wrapped anew: %v", n, err)
	}
	if payloads, _ := v.with(newerWrappingKey).read(); len(payloads) != 2 || !strings.Contains(payloads[0], planted("ann")) {
		t.Errorf("read %s", payloads)
	}
}

// TestARotationRecordsItsWrappingKey rotates before any program has appended with the new key.
func TestARotationRecordsItsWrappingKey(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.append("shop", ordered("ann", 1))
	if n, err := v.with(newerWrappingKey, wrappingKey).sealer.Rotate(t.Context(), v.Pool); n != 1 || err != nil {
		t.Errorf("%d keys are wrapped anew: %v", n, err)
	}
	v.with(wrongNewerKey).refusesNew("after the rotation", "zoe")
}

// TestTheRightWrappingKeyIsTrusted starts with a record of a wrong key. The programs that run have taken that key
// for the right one, and others cannot open the record.
func TestTheRightWrappingKeyIsTrusted(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	wrong := v.with(wrongWrappingKey)
	wrong.append("shop", ordered("wrong", 1)) // it comes first
	v.refusesNew("before", "ann")
	trusts := func(v *vault, name, want string) {
		t.Helper()
		opens, of, err := v.sealer.Trust(t.Context(), v.Pool, name)
		if got := fmt.Sprint(opens, " of ", of); got != want || err != nil {
			t.Errorf("%s opens %s keys, want %s: %v", name, got, want, err)
		}
	}
	trusts(v, "2025", "0 of 1")
	wrong.refusesNew("the other program, which runs on", "bob")
	v.append("shop", ordered("ann", 1))
	trusts(v, "2025", "1 of 2")
	v.forget("wrong")
	if payloads, events := v.with(wrappingKey).read(); len(payloads) != 2 || !strings.Contains(payloads[1], planted("ann")) || !events[0].Erased() {
		t.Errorf("read %s", payloads)
	}

	// An appender without the wrapping key records something before its first use.
	v.value(`SELECT tidemark.wrapping_key('2026', encode(sha256('garbage') || sha256('x'), 'base64'))`)
	newer := v.with(newerWrappingKey, wrappingKey)
	newer.refusesNew("after garbage was recorded", "eve")
	if _, err := newer.sealer.Rotate(t.Context(), v.Pool); !errors.Is(err, catalogue.ErrWrappingKey) {
		t.Errorf("a rotation: %v", err)
	}
	if _, _, err := newer.sealer.Trust(t.Context(), v.Pool, "2027"); !errors.Is(err, catalogue.ErrWrappingKey) {
		t.Errorf("a wrapping key that the program lacks is trusted: %v", err)
	}
	trusts(newer, "2026", "0 of 0")
	v.value(`SELECT tidemark.wrapping_key('2026', encode(sha256('garbage') || sha256('y'), 'base64'))`) // in vain
	newer.append("shop", ordered("eve", 1))
	v.with(newerWrappingKey).append("shop", ordered("eva", 1))
	if got := v.value(`SELECT string_agg(concat_ws(' ', actor, detail ->> 'name'), ', ' ORDER BY id) FROM tidemark.operator_log
		WHERE act = 'wrapping_key_recorded'`); strings.Count(got, "2025") != 2 || strings.Count(got, "2026") != 1 {
		t.Errorf("the log of operators has %q", got)
	}
}

// TestADatabaseWithoutTheRecordGetsItAnew has lost it, such as a backup that is older, while programs run on.
func TestADatabaseWithoutTheRecordGetsItAnew(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.append("shop", ordered("ann", 1))
	exec(t, v.Pool, `DELETE FROM tidemark.wrapping_keys`)
	v.append("shop", ordered("bob", 1))
	v.with(wrongWrappingKey).refusesNew("after an append of a program that runs on", "zoe")

	undone := errors.New("undone")
	other := (&vault{Pool: newVault(t).Pool, t: t}).with(wrappingKey)
	if err := other.within(func(tx pgx.Tx) error {
		_, err := other.journal.Append(t.Context(), tx, "shop", journal.Any, ordered("ann", 1))
		return errors.Join(err, undone)
	}); !errors.Is(err, undone) {
		t.Fatal(err)
	}
	other.append("shop", ordered("ann", 1)) // the record was rolled back
	other.with(wrongWrappingKey).refusesNew("after a transaction that was rolled back", "zoe")
	exec(t, other.Pool, `DELETE FROM tidemark.keys; DELETE FROM tidemark.wrapping_keys`) // a restore without both
	other.append("shop", ordered("bob", 1))
	other.with(wrongWrappingKey).refusesNew("after a restore", "zoe")
}

func TestProgramsThatBeginTogetherRecordOneWrappingKey(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	var all sync.WaitGroup
	refused := make([]error, 12)
	for n := range refused {
		all.Go(func() {
			key := wrappingKey
			if n%2 == 1 {
				key = wrongWrappingKey
			}
			refused[n] = v.with(key).try(t.Context(), ordered(fmt.Sprint("ann", n), 1))
		})
	}
	all.Wait()
	for n, err := range refused {
		if same := (err == nil) == (refused[n%2] == nil); !same || err != nil && !errors.Is(err, catalogue.ErrWrappingKey) {
			t.Errorf("program %d: %v, another one with its key: %v", n, err, refused[n%2])
		}
	}
	if (refused[0] == nil) == (refused[1] == nil) {
		t.Errorf("both keys of a name are used, or none: %v, %v", refused[0], refused[1])
	}
}

// TestAKeyThatDoesNotOpenHidesNoWrappingKey plants keys under a name that no program has used yet.
func TestAKeyThatDoesNotOpenHidesNoWrappingKey(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.value(`SELECT count(*) FROM generate_series(0, 9) AS n, tidemark.subject_keys(jsonb_build_array(jsonb_build_object(
		'subject', encode(sha256(n::text::bytea), 'hex'), 'id', '00000000-0000-4000-8000-00000000000' || n,
		'wrapped', encode(sha256('garbage') || sha256('x'), 'base64'), 'wrapped_by', '2025')))`)
	v.append("shop", ordered("ann", 1))
	if n, err := v.with(wrappingKey, newerWrappingKey).sealer.Rotate(t.Context(), v.Pool); n != 0 || err != nil {
		t.Errorf("%d keys are wrapped anew: %v", n, err)
	}
}

// TestARecordThatIsBeingMadeHoldsUpOthersForABoundedTime leaves a transaction open that records a wrapping key.
func TestARecordThatIsBeingMadeHoldsUpOthersForABoundedTime(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	tx, err := v.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	const record = `SELECT tidemark.wrapping_key('2031', encode(decode(repeat('00', 40), 'hex'), 'base64'))`
	if _, err := tx.Exec(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	_, err = v.Exec(t.Context(), record)
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "55P03" {
		t.Errorf("got %v", err)
	}
}
