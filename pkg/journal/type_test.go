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

type wound struct {
	Points int `json:"points"`
}

const wounded event.Type[wound] = "hero_wounded"

func TestATypeMakesAndDecodesItsEvents(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(t.Context(), tx, "c", journal.None, wounded.New(wound{3}))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	e, err := journal.Get(t.Context(), pool, "c", 1)
	if err != nil || e.Type != "hero_wounded" || string(e.Payload) != `{"points": 3}` {
		t.Fatalf("the journal has %s %s, %v", e.Type, e.Payload, err)
	}
	if got, err := wounded.Decode(e); err != nil || got.Points != 3 {
		t.Errorf("decoded is %+v, %v", got, err)
	}
	var wrong *event.DecodeError
	if _, err := event.Type[wound]("hero_healed").Decode(e); !errors.As(err, &wrong) || wrong.Type != "hero_wounded" {
		t.Errorf("another type answers %v", err)
	}
}

func TestAPayloadThatCannotBeEncodedIsRefusedAtTheAppend(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	e := event.Type[func()]("odd").New(func() {})
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{}.Append(t.Context(), tx, "c", journal.Any, e)
		return err
	})
	var refused *journal.InvalidEventError
	if !errors.As(err, &refused) || refused.Field != "payload" || !strings.Contains(refused.Reason, "func()") {
		t.Errorf("the append answers %v", err)
	}
}
