package main

import (
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestQuickstart(t *testing.T) {
	t.Parallel()
	t.Run("prints the same on every run", func(t *testing.T) {
		t.Parallel()
		url := pgtest.UTF8(pgtest.URL(t))
		for range 2 {
			var out strings.Builder
			if err := run(t.Context(), url, &out); err != nil {
				t.Fatal(err)
			}
			if out.String() != "Mira has 9 hit points left\n" {
				t.Errorf("printed %q", out.String())
			}
		}
	})
}
