package app

import (
	"bytes"
	"testing"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
)

// TestAProgramWithProjectionsVerifiesThem expects the commands that need projection code in a
// program that has some.
func TestAProgramWithProjectionsVerifiesThem(t *testing.T) {
	t.Parallel()
	for _, path := range [][]string{
		{"projection", "verify"}, {"campaign", "as-of"}, {"campaign", "diff"}, {"campaign", "why"},
	} {
		own := NewCommand(Options{Projections: plantedHandlers()})
		if found, _, err := own.Find(path); err != nil || found.Name() != path[1] {
			t.Errorf("a program with projections finds %q for %v, %v", found.Name(), path, err)
		}
		stock := NewCommand(Options{})
		if found, _, _ := stock.Find(path); found != stock {
			t.Errorf("the stock worker has %v", path)
		}
	}
}

// TestAProgramWritesItsCatalogue has the command print the catalogue that the program gave.
func TestAProgramWritesItsCatalogue(t *testing.T) {
	t.Parallel()
	types, err := catalogue.New(catalogue.EventType{Name: "order_placed", Version: 1, Personal: []string{"email"}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := NewCommand(Options{Catalogue: types})
	cmd.SetArgs([]string{"catalogue", "write"})
	cmd.SetOut(&out)
	want := "unknown_types: accept\n\ntypes:\n  order_placed:\n    version: 1\n    personal: [\"email\"]\n"
	if err := cmd.Execute(); err != nil || out.String() != want {
		t.Errorf("got %s, %v, want %s", out.String(), err, want)
	}
	stock := NewCommand(Options{})
	if found, _, _ := stock.Find([]string{"catalogue", "write"}); found != stock {
		t.Errorf("the stock worker has %s", found.Name())
	}
}
