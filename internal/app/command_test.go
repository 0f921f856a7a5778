package app

import "testing"

// TestAProgramWithProjectionsVerifiesThem has the commands that need the code of projections where there is code.
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
