package scheduled_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/scheduled"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestList(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	refused := scheduleEvents(t, pool, "a", -time.Hour, event.Event{
		Type: "long", Payload: json.RawMessage(`{"a": "` + strings.Repeat("x", 500) + `"}`),
	})
	exec(t, pool, `UPDATE tidemark.limits SET payload_bytes = 400`)
	fire(t, pool, scheduled.Look{})
	second := schedule(t, pool, "a", time.Hour, "one", "two")
	third := schedule(t, pool, "b", 2*time.Hour, "three")
	ids := func(f scheduled.Filter) string {
		t.Helper()
		f.Limit = 10
		found, err := scheduled.List(t.Context(), pool, f)
		if err != nil {
			t.Fatal(err)
		}
		var ids []int64
		for _, a := range found {
			ids = append(ids, a.ID)
		}
		return fmt.Sprint(ids)
	}
	all, err := scheduled.List(t.Context(), pool, scheduled.Filter{Limit: 1})
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	first := all[0].Place()
	for what, c := range map[string]struct {
		f    scheduled.Filter
		want []int64
	}{
		"all":                       {scheduled.Filter{}, []int64{refused, second, third}},
		"the next page":             {scheduled.Filter{After: &first}, []int64{second, third}},
		"a campaign":                {scheduled.Filter{CampaignID: "a"}, []int64{refused, second}},
		"the refused":               {scheduled.Filter{Refused: true}, []int64{refused}},
		"a campaign's refused":      {scheduled.Filter{CampaignID: "b", Refused: true}, nil},
		"a campaign's next page":    {scheduled.Filter{CampaignID: "a", After: &first}, []int64{second}},
		"the next page of refused":  {scheduled.Filter{Refused: true, After: &first}, nil},
		"an unknown campaign's all": {scheduled.Filter{CampaignID: "nobody"}, nil},
	} {
		if got := ids(c.f); got != fmt.Sprint(c.want) {
			t.Errorf("%s: %s, expected %v", what, got, c.want)
		}
	}
	a, events, err := scheduled.Show(t.Context(), pool, refused, false)
	if err != nil || a.Attempts != 1 || !strings.Contains(a.Error, "payload has") || len(events) != 1 ||
		len(events[0].Payload) < 500 || events[0].ID.Version() != 7 || events[0].CampaignID != "a" {
		t.Errorf("show: %+v, %+v, %v", a, events, err)
	}
	if _, events, err = scheduled.Show(t.Context(), pool, second, true); err != nil || len(events) != 2 || events[1].Type != "two" ||
		events[0].Payload != nil {
		t.Errorf("show without payloads: %+v, %v", events, err)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	id := schedule(t, pool, "a", time.Hour, "later")
	cancel := func() (a scheduled.Append, err error) {
		err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			a, err = scheduled.Cancel(t.Context(), tx, id, scheduled.Actor{Name: "ada"})
			return err
		})
		return a, err
	}
	if a, err := cancel(); err != nil || a.CampaignID != "a" || a.EventType != "later" {
		t.Errorf("cancel: %+v, %v", a, err)
	}
	if _, err := cancel(); !errors.Is(err, scheduled.ErrNotFound) {
		t.Errorf("cancel again: %v", err)
	}
}
