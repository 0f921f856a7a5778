package projection

import (
	"fmt"
	"reflect"

	"github.com/tidemark-go/tidemark/pkg/event"
)

// engine is what applies a kind of projection.
type engine interface {
	Projection
	Mistake() error // what keeps it from working, before the first event
}

// engineOf returns the engine of a kind of this package, and any other projection as it is: also one that
// embeds a kind, since its own methods count.
func engineOf(p any) any {
	t := reflect.TypeOf(p)
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.PkgPath() != reflect.TypeFor[Spec]().PkgPath() {
		return p
	}
	if kind, ok := p.(interface{ engine() engine }); ok {
		return kind.engine()
	}
	return p
}

// lacks returns the mistake of a projection without something.
func lacks(name, what, remedy string) error {
	return fmt.Errorf("projection %s has no %s: %s", name, what, remedy)
}

// twice returns the mistake of a projection that has two functions for one event type.
func twice(name, eventType string) error {
	return fmt.Errorf("projection %s has two functions for events of the type %q: leave one", name, eventType)
}

// twiceOf returns the mistake of folds.
func twiceOf[D any](name string, folds event.Folds[D]) error {
	given := map[string]bool{}
	for _, fold := range folds {
		switch {
		case fold.Name() == "":
			return lacks(name, "function for one of its folds", "make folds with event.On")
		case given[fold.Name()]:
			return twice(name, fold.Name())
		}
		given[fold.Name()] = true
	}
	return nil
}
