package sqlfile

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

func TestTheKeyOfAnEventIsFoundAsPostgresFindsIt(t *testing.T) {
	t.Parallel()
	e := event.Event{
		CampaignID: "c", Actor: "ann", AggregateID: "7", OccurredAt: time.Date(2026, 5, 4, 23, 30, 0, 0, time.FixedZone("", 3600)),
		Payload: []byte(`{"a": {"b": "x\"y", "n": 1.50, "z": null}, "s": "t"}`), Metadata: []byte(`{"m": true}`),
	}
	for expression, want := range map[string]string{
		"event.campaign_id":               "c",
		"event.actor":                     "ann",
		"event.aggregate_id":              "7",
		"event.aggregate_type":            "",
		"event.occurred_at::date":         "2026-05-04",
		"event.payload->>'s'":             "t",
		"event.payload -> 'a' ->> 'b'":    `x"y`,
		"event.payload->'a'->>'n'":        "1.50",
		"event.payload->'a'->>'z'":        "",
		"event.payload->'s'->>'z'":        "",
		"event.payload->'no'->'a'->>'z'":  "",
		"event.metadata->>'m'":            "true",
		"event.payload->'a'->>'missing'":  "",
		"event.payload->>'a'":             `{"b": "x\"y", "n": 1.50, "z": null}`,
		"event.payload->'a'->'b'->>'one'": "",
	} {
		of := keyOf(expression)
		if of == nil {
			t.Errorf("%s is no key", expression)
			continue
		}
		if got, err := of(e); got != want || err != nil {
			t.Errorf("%s = %q, %v, want %q", expression, got, err, want)
		}
	}
	for _, expression := range []string{"", "event.payload", "event.payload->'a'", "event.seq", "lower(event.actor)", "1"} {
		if keyOf(expression) != nil {
			t.Errorf("%q is a key", expression)
		}
	}
}

func TestAFileSaysThatItIsAcrossCampaigns(t *testing.T) {
	t.Parallel()
	const tables = "CREATE TABLE x (player text PRIMARY KEY);\n-- on: scored\nINSERT INTO x VALUES (event.actor);\n"
	load := func(header string) (projection.Spec, string) {
		p, err := Load(fstest.MapFS{"x.sql": {Data: []byte("-- projection: x\n-- version: 1\n" + header + tables)}}, "x.sql")
		if err != nil {
			return projection.Spec{}, err.Error()
		}
		return p.Spec(), ""
	}
	spec, fault := load("-- scope: journal\n-- key: player = event.actor\n-- partitions: 4\n")
	if fault != "" || spec.Scope != projection.ScopeJournal || spec.Key == nil || spec.KeyColumn != "player" ||
		spec.Partitions != 4 {
		t.Errorf("%+v, %s", spec, fault)
	}
	for header, want := range map[string]string{
		"-- scope: all\n":                 "x.sql:3: scope \"all\": write campaign or journal",
		"-- key: event.actor\n":           "x.sql:3: key \"event.actor\": write the tables' column, = and the event's field",
		"-- partitions: none\n":           "x.sql:3: partitions \"none\": a whole number from 1",
		tables + "-- scope: journal\n":    "scope after the tables",
		"-- key: player = lower(actor)\n": "x.sql:3: key",
	} {
		if _, fault := load(header); !strings.Contains(fault, want) {
			t.Errorf("%q: %s, want %s", header, fault, want)
		}
	}
}
