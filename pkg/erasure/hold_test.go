package erasure_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/erasure"
)

// states returns the states of all erasures.
func (s *shop) states() string {
	s.t.Helper()
	all, err := erasure.List(s.t.Context(), s.Pool, 0, 100)
	if err != nil {
		s.t.Fatal(err)
	}
	states := ""
	for _, r := range slices.Backward(all) {
		states += fmt.Sprint(r.ID, " ", r.State, " ", r.Holder, "\n")
	}
	return states
}

// TestAnErasureEndsNoOther has an erasure of a subject killed and one running, and erases another subject.
func TestAnErasureEndsNoOther(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.order("oak", "ann", 2)
	s.order("elm", "bob", 2)
	s.order("ash", "eve", 2)
	ann, bob, eve := []string{planted("ann")}, []string{planted("bob")}, []string{planted("eve")}
	s.killed(erasure.Request{Subjects: ann})
	s.value(`SELECT id FROM tidemark.begin_erasure(NULL, $1, NULL, NULL, 'otto', 'it runs', true)`, bob)
	s.erase(erasure.Request{Subjects: eve})
	if got := s.states(); got != "1 interrupted anna\n2 running otto\n3 ended anna\n" {
		t.Errorf("the list says\n%s", got)
	}
	if n := s.value(`SELECT count(*) FROM tidemark.not_archivable('{oak}') WHERE reason ~ 'erasure [12] has not ended'`); n != "1" {
		t.Error("oak may be archived while an erasure has not ended")
	}
	for name, r := range map[string]erasure.Request{
		"a tag": {Subjects: []string{"customer=" + planted("ann")}}, "more": {Subjects: append(ann, "x")},
		"personal fields": {Subjects: ann, Personal: true},
	} {
		r.By, r.Reason, r.Catalogue = "anna", "another request", s.catalogue
		c, err := erasure.Erase(t.Context(), s.Pool, r)
		if err == nil && c.Erasure == 1 {
			t.Errorf("%s continues the erasure", name)
		}
	}
	if got := s.value(`SELECT ended_at IS NULL FROM tidemark.erasures WHERE id = 1`); got != "true" {
		t.Error("another request has ended the killed erasure")
	}
}

// TestTheSameRequestContinuesAnErasure has another operator, another order of subjects, and no catalogue.
func TestTheSameRequestContinuesAnErasure(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.order("oak", "ann", 2)
	s.order("elm", "ann", 3)
	s.order("elm", "bob", 2)
	r := erasure.Request{Subjects: []string{planted("ann"), planted("bob")}}
	s.value(`SELECT id FROM tidemark.begin_erasure(NULL, $1, '{"ordered": ["customer", "name"]}', NULL, 'otto', 'killed', true)`,
		r.Subjects)
	if n := s.value(`SELECT cardinality(tidemark.erase(1, 1, 'oak', '{1}', 10))`); n != "1" {
		t.Fatalf("%s events are erased", n)
	}
	r.By, r.Reason, r.Subjects = "anna", "go on", []string{planted("bob"), planted("ann"), planted("bob")}
	_, err := erasure.Erase(t.Context(), s.Pool, r)
	held, ok := errors.AsType[*erasure.HeldError](err)
	if !ok || held.Erasure != 1 || held.Holder != "otto" || time.Until(held.Until) < time.Second {
		t.Fatalf("while it runs: %v", err)
	}
	s.expire()
	c, err := erasure.Erase(t.Context(), s.Pool, r)
	if err != nil || c.Erasure != 1 || c.Events != 3 || c.Changed["journal"] != 3 {
		t.Fatalf("%+v, %v", c, err)
	}
	if got := s.states(); got != "1 ended anna\n" {
		t.Errorf("the list says\n%s", got)
	}
	if n := s.value(`SELECT count(*) FROM tidemark.erased_values WHERE hash = sha256($1 || convert_to('planted ann', 'UTF8'))`,
		c.Key); n != "1" {
		t.Error("the certificate's key does not fit what the killed call erased")
	}
	for name, sql := range changes() {
		if _, err := s.Exec(t.Context(), sql); err == nil && name != "release" {
			t.Errorf("%s is not refused", name)
		}
	}
	if _, err := erasure.Erase(t.Context(), s.Pool, r); !errors.Is(err, erasure.ErrNothing) {
		t.Errorf("once more: %v", err)
	}
}

// changes returns statements of the first holder of erasure 1.
func changes() map[string]string {
	return map[string]string{
		"erase": `SELECT tidemark.erase(1, 1, 'oak', '{1}', 10)`, "traces": `SELECT tidemark.erase_traces(1, 1, 'oak', true)`,
		"scheduled": `SELECT tidemark.erase_scheduled(1, 1, 'oak', NULL, '{}', NULL, 0, 10)`,
		"keys":      `SELECT tidemark.erase_keys(1, 1, '{}', 0, 10)`, "items": `SELECT tidemark.erase_items(1, 1, '{}', 0, 10)`,
		"end": `SELECT tidemark.end_erasure(1, 1)`, "forget": `SELECT tidemark.forget_keys(1, 1, '{}')`,
		"hold": `SELECT tidemark.hold_erasure(1, 1)`, "release": `SELECT tidemark.release_erasure(1, 1)`,
	}
}

// TestAnErasureThatLostItsHoldStops has a call of an older generation, which changes nothing.
func TestAnErasureThatLostItsHoldStops(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.killed(erasure.Request{Campaign: "oak"})
	s.killed(erasure.Request{Campaign: "oak"}) // generation 2
	if got := s.value(`SELECT generation FROM tidemark.erasures`); got != "2" {
		t.Fatalf("generation %s", got)
	}
	s.order("oak", "ann", 2)
	for name, sql := range changes() {
		if _, err := s.Exec(t.Context(), sql); name != "release" && (err == nil || !strings.Contains(err.Error(), "is not held by this call")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := s.value(`SELECT count(*) FROM tidemark.erased_events`); n != "0" {
		t.Errorf("%s events are erased", n)
	}
	if got := s.value(`SELECT generation || ' ' || (held_until <= clock_timestamp()) FROM tidemark.erasures`); got != "2 true" {
		t.Errorf("generation and expiry: %s", got)
	}
}

// TestKeysAreDerivedByHMAC compares the database's keys with those of Go's HMAC.
func TestKeysAreDerivedByHMAC(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.order("oak", "ann", 2)
	c := s.erase(erasure.Request{Campaign: "oak"})
	var inner, outer []byte
	if err := s.QueryRow(t.Context(), `SELECT inner_block, outer_block FROM tidemark.erasure_secret`).Scan(&inner, &outer); err != nil {
		t.Fatal(err)
	}
	secret := make([]byte, 32)
	for i := range inner {
		if inner[i]^outer[i] != 0x36^0x5c || i >= len(secret) && inner[i] != 0x36 {
			t.Fatalf("byte %d of the blocks is %x and %x", i, inner[i], outer[i])
		}
		if i < len(secret) {
			secret[i] = inner[i] ^ 0x36
		}
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write(binary.BigEndian.AppendUint64([]byte("erasure:"), uint64(c.Erasure)))
	if !hmac.Equal(mac.Sum(nil), c.Key) {
		t.Errorf("the key is %x, HMAC is %x", c.Key, mac.Sum(nil))
	}
}
