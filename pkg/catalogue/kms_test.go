package catalogue_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// wrappedBy returns another program on the database, whose memory is empty.
func (v *vault) wrappedBy(wrappers ...catalogue.Wrapper) *vault {
	v.t.Helper()
	other := *v
	var err error
	if other.sealer, err = catalogue.NewSealer(wrappers...); err != nil {
		v.t.Fatal(err)
	}
	other.journal = journal.Journal{Catalogue: sealedCatalogue(v.t, other.sealer)}
	return &other
}

// try appends and returns the error.
func (v *vault) try(ctx context.Context, events ...event.Event) error {
	return pgx.BeginFunc(ctx, v.Pool, func(tx pgx.Tx) error {
		_, err := v.journal.Append(ctx, tx, "shop", journal.Any, events...)
		return err
	})
}

func (v *vault) counts() string {
	v.t.Helper()
	return v.value(`SELECT (SELECT count(*) FROM tidemark.journal) || ' ' || (SELECT count(*) FROM tidemark.keys)`)
}

func TestAKMSIsCalledOnceForTheKeyOfAPerson(t *testing.T) {
	t.Parallel()
	client := newKMS("a")
	v := newVault(t).wrappedBy(kmsKey{client, "a"})
	client.away(0) // the programs have started without it
	v.append("shop", event.Event{Type: "opened", Payload: json.RawMessage(`{"city": "Oslo"}`)})
	if client.calls != 0 {
		t.Errorf("%d calls for an event without personal fields", client.calls)
	}
	client.back()
	v.append("shop", ordered("ann", 1), ordered("ann", 2))
	v.append("shop", ordered("ann", 3))
	v.read()
	v.append("shop", ordered("ann", 4))
	if client.calls != 3 { // two for the check value
		t.Errorf("%d calls by the program that has made the key, want 3", client.calls)
	}
	other := v.wrappedBy(kmsKey{client, "a"})
	for range 2 {
		if payloads, _ := other.read(); len(payloads) != 5 || !strings.Contains(payloads[3], planted("ann")) {
			t.Errorf("read %s", payloads)
		}
	}
	other.append("shop", ordered("ann", 5))
	if client.calls != 4 {
		t.Errorf("%d calls after another program has read and appended, want 4", client.calls)
	}
	v.forget("bob") // an erasure
	v.read()
	v.read()
	if client.calls != 5 {
		t.Errorf("%d calls after a program has read after an erasure, want 5", client.calls)
	}
	other.append("shop", ordered("zoe", 1), ordered("eva", 1))
	other.append("shop", ordered("ida", 1))
	if client.calls != 9 {
		t.Errorf("%d calls after another program has made three keys, want 9: one opens the check value", client.calls)
	}
}

func TestWhileAKMSIsAwayNothingIsWrittenInTheClear(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client := newKMS("a")
	v := newVault(t).wrappedBy(kmsKey{client, "a"})
	v.append("shop", ordered("ann", 1), ordered("bob", 1))
	other := v.wrappedBy(kmsKey{client, "a"})
	client.away(0)

	if err := v.try(ctx, ordered("ann", 2)); err != nil {
		t.Errorf("an append about a person whose key is in memory: %v", err)
	}
	if payloads, _ := v.read(); len(payloads) != 3 || !strings.Contains(payloads[2], planted("ann")) {
		t.Errorf("read from memory %s", payloads)
	}
	if err := other.try(ctx, event.Event{Type: "opened"}); err != nil {
		t.Errorf("an append without personal fields: %v", err)
	}
	before := v.counts()
	fresh, known := ordered("zoe", 1), ordered("ann", 3)
	fresh.ID, known.ID = uuid.New(), uuid.New()
	if err := v.try(ctx, ordered("ann", 9), fresh); !errors.Is(err, errAway) || errors.Is(err, catalogue.ErrWrappingKey) {
		t.Errorf("an append about a new person: %v", err)
	}
	if err := other.try(ctx, event.Event{Type: "opened"}, known); !errors.Is(err, errAway) || !errors.Is(err, catalogue.ErrWrappingKey) {
		t.Errorf("an append about a person who has a key: %v", err)
	}
	if _, err := journal.Get(ctx, other.sealer.Reading(v.Pool), "shop", 1); !errors.Is(err, errAway) || !errors.Is(err, catalogue.ErrWrappingKey) {
		t.Errorf("a read that opens: %v", err)
	}
	if e, err := journal.Get(ctx, v.Pool, "shop", 1); err != nil || !bytes.Contains(e.Payload, []byte(`"$sealed"`)) {
		t.Errorf("a read that does not open: %s, %v", e.Payload, err)
	}
	if after := v.counts(); after != before {
		t.Errorf("%s events and keys after the refusals, %s before", after, before)
	}
	for _, person := range []string{"ann", "bob", "zoe"} {
		if found := v.everywhere(planted(person)); len(found) > 0 {
			t.Errorf("%s has the plain text of %s", found, person)
		}
	}

	client.back()
	if err := errors.Join(v.try(ctx, fresh), other.try(ctx, known)); err != nil {
		t.Errorf("the same appends later: %v", err)
	}
	v.forget("bob") // an erasure
	client.away(0)
	if _, err := journal.Get(ctx, v.sealer.Reading(v.Pool), "shop", 1); !errors.Is(err, catalogue.ErrWrappingKey) {
		t.Errorf("a read after an erasure, which drops the keys in memory: %v", err)
	}
	client.back()
	client.hangs = true
	late, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	if err := v.try(late, ordered("eva", 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an append whose context ends while the service hangs: %v", err)
	}
}

func TestTheKeyOfAKMSIsChangedLikeOneOfAFile(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	v := newVault(t) // with a wrapping key of a file
	const persons = 250
	events := make([]event.Event, persons)
	for i := range events {
		events[i] = ordered(fmt.Sprint("customer", i), i)
	}
	v.append("shop", events...)
	file, err := catalogue.ParseWrappingKeys(wrappingKey)
	if err != nil {
		t.Fatal(err)
	}
	client := newKMS("a", "b")
	all := func(v *vault) {
		t.Helper()
		if payloads, _ := v.read(); len(payloads) != persons || !strings.Contains(payloads[persons-1], planted("customer249")) {
			t.Errorf("%d events are open", len(payloads))
		}
	}
	rotate := func(v *vault, want int64) error {
		t.Helper()
		n, err := v.sealer.Rotate(ctx, v.Pool)
		if n != want {
			t.Errorf("%d keys are wrapped anew, want %d", n, want)
		}
		return err
	}
	if err := rotate(v.wrappedBy(append([]catalogue.Wrapper{kmsKey{client, "a"}}, file...)...), persons); err != nil {
		t.Fatal(err)
	}
	if client.calls != persons+2 { // the check value
		t.Errorf("%d calls, want one to wrap each of %d keys", client.calls, persons)
	}
	all(v.wrappedBy(kmsKey{client, "a"}))

	client.addVersion("a") // the service changes its key by itself
	all(v.wrappedBy(kmsKey{client, "a"}))
	if err := rotate(v.wrappedBy(kmsKey{client, "a"}), 0); err != nil {
		t.Error(err)
	}

	both := v.wrappedBy(kmsKey{client, "b"}, kmsKey{client, "a"})
	client.away(2*persons - 10)
	if err := rotate(both, 200); !errors.Is(err, errAway) {
		t.Errorf("a rotation during an outage: %v", err)
	}
	client.back()
	all(v.wrappedBy(kmsKey{client, "b"}, kmsKey{client, "a"}))
	if err := errors.Join(rotate(both, 50), rotate(both, 0)); err != nil {
		t.Error(err)
	}
	all(v.wrappedBy(kmsKey{client, "b"}))
}

func TestAWrappedKeyOpensOnlyForItsPerson(t *testing.T) {
	t.Parallel()
	client := newKMS("a")
	v := newVault(t).wrappedBy(kmsKey{client, "a"})
	v.append("shop", ordered("ann", 1), ordered("bob", 1))
	v.value(`SELECT count(*) FROM tidemark.subject_keys('[]')`)
	if _, err := v.Exec(t.Context(), `UPDATE tidemark.keys k SET wrapped = o.wrapped FROM tidemark.keys o WHERE o.id <> k.id`); err != nil {
		t.Fatal(err)
	}
	other := v.wrappedBy(kmsKey{client, "a"})
	if _, err := journal.Get(t.Context(), other.sealer.Reading(v.Pool), "shop", 1); !errors.Is(err, catalogue.ErrWrappingKey) {
		t.Errorf("a key that stands in another's row: %v", err)
	}
}
