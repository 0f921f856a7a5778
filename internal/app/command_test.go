package app

import "testing"

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
