package journal

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
)

// Upcaster converts a payload of one version to the next. It must be pure: the same result each
// time, no change to its input, safe for concurrent use. Build it from [Rename], [Move], [Default],
// [Remove] and [Chain], or by hand.
type Upcaster func(payload json.RawMessage) (json.RawMessage, error)

// Rename renames a field in place: Rename("stats.hp", "hit_points") gives stats.hit_points. A
// payload without the field does not change; one that has both is an error. It panics if path or
// name is malformed.
func Rename(path, name string) Upcaster { return must(renameEdit(path, name)).upcast }

// Move moves a field to another place and creates the objects on the way. A payload without the
// field does not change; one that has both is an error. It panics if a path is malformed.
func Move(from, to string) Upcaster { return must(moveEdit(from, to)).upcast }

// Default sets an absent field and creates the objects on the way. A null field counts as present.
// value is anything encoding/json can encode; if it cannot, or the path is malformed, Default panics.
func Default(path string, value any) Upcaster { return must(defaultEdit(path, value)).upcast }

// Remove removes fields; absent ones are no error. It panics if a path is malformed.
func Remove(paths ...string) Upcaster { return must(removeEdit(paths...)).upcast }

// Chain runs upcasters one after another, as one step between versions.
func Chain(upcasters ...Upcaster) Upcaster {
	return func(payload json.RawMessage) (json.RawMessage, error) {
		var err error
		for _, upcast := range upcasters {
			if payload, err = upcast(payload); err != nil {
				return nil, err
			}
		}
		return payload, nil
	}
}

func must(e edit, err error) edit {
	if err != nil {
		panic(fmt.Sprintf("journal: %v", err))
	}
	return e
}

// upcastPayload runs the upcasters of t from version to the current one. Each returns a JSON object.
func (t *catalogued) upcastPayload(payload json.RawMessage, version int) (json.RawMessage, error) {
	if len(payload) == 0 {
		payload = json.RawMessage("{}")
	}
	for ; version < t.Version; version++ {
		next, err := callUpcaster(t.Upcast[version], payload)
		if err != nil {
			return nil, fmt.Errorf("upcast %s from version %d to %d: %w", t.Name, version, version+1, err)
		}
		payload = next
	}
	return payload, nil
}

// callUpcaster turns a panic into an error, so that it costs one event and not the process.
func callUpcaster(upcast Upcaster, payload json.RawMessage) (next json.RawMessage, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the upcaster panicked: %v\n%s", r, debug.Stack())
		}
	}()
	next, err = upcast(payload)
	if err != nil {
		return nil, err
	}
	if reason := checkObject(next); reason != "" || len(next) == 0 {
		return nil, errors.New("the upcaster's result " + cmp.Or(reason, "is not valid JSON"))
	}
	return next, nil
}
