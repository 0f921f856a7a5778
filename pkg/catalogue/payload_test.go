package catalogue_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
)

type address struct {
	City  string
	Extra any `json:"extra"`
}

type named struct{ Street string }

type person struct {
	*address
	named `json:"named"`

	Name     string               `json:"name,omitempty"`
	Homes    []*address           `json:"homes"`
	Friends  map[string][]address `json:"friends"`
	Raw      json.RawMessage      `json:"raw"`
	Born     time.Time            `json:"born"`
	Secret   string               `json:"-"`
	internal string
}

// TestFieldsOfATypeAreThoseOfItsJSON gives paths with an event.Type: a mistyped one would leave personal data.
func TestFieldsOfATypeAreThoseOfItsJSON(t *testing.T) {
	t.Parallel()
	const Joined event.Type[person] = "joined"
	_ = person{internal: ""}
	for path, known := range map[string]bool{
		"name": true, "City": true, "homes.City": true, "homes": true, "friends.ann.City": true, "extra.any.thing": true,
		"raw.any": true, "born": true, "homes.extra.x": true, "$tags.name": true,
		"surname": false, "Street": false, "Name": false, "homes.city": false, "name.first": false, "Secret": false, "internal": false,
		"friends.ann.street": false, "Homes.City": false,
	} {
		_, err := catalogue.New(catalogue.EventType{Type: Joined, Personal: []string{path}})
		if (err == nil) != known || err != nil && !strings.Contains(err.Error(), `event type "joined": field "`+path+`" is not in`) {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := catalogue.New(catalogue.EventType{Name: "joined", Personal: []string{path}}); err != nil {
			t.Errorf("%s without a Type: %v", path, err)
		}
	}
	if _, err := catalogue.New(catalogue.EventType{Type: Joined, Subject: []string{"surname"}}); err == nil {
		t.Error("a subject that is no field is accepted")
	}
	code := map[int]catalogue.Upcaster{1: catalogue.Convert(func(p json.RawMessage) (json.RawMessage, error) { return p, nil })}
	if _, err := catalogue.New(catalogue.EventType{Type: Joined, Version: 2, Upcast: code, Personal: []string{"former"}}); err != nil {
		t.Errorf("a field that code changes: %v", err)
	}
	if _, err := catalogue.New(catalogue.EventType{Type: Joined, Name: "left"}); err == nil ||
		!strings.Contains(err.Error(), "its Type is joined: give either Name or Type") {
		t.Errorf("two names: %v", err)
	}
	types, err := catalogue.New(catalogue.EventType{Type: Joined, Aliases: []string{"entered"}})
	if err != nil || types.Names("entered")[0] != "joined" {
		t.Errorf("%v, %v", types.Names("entered"), err)
	}
}
