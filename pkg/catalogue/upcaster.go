package catalogue

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/internal/text"
)

// Upcaster converts a payload of one version to the next. [Rename], [Move], [Default] and [Remove] make one,
// [Chain] joins them, and [Convert] makes one of code. [New] reports mistakes in their arguments.
type Upcaster struct {
	steps []step // nil: the zero value, which is no upcaster
	moves []move // that the steps make, in order
	err   error  // mistakes in the arguments
}

// step changes a payload, decoded or as it is: one of the two is set.
type step struct {
	edit    func(object) error
	convert func(payload json.RawMessage) (json.RawMessage, error)
	written map[string]any // what edit does, as in a file: {"move": {"hp": "stats.hp"}}
}

// move is a field that gets another name or place.
type move struct{ from, to string }

// Rename renames a field in place: Rename("stats.hp", "hit_points") gives stats.hit_points. A
// payload without the field does not change; one that has both is an error.
func Rename(path, name string) Upcaster {
	if strings.Contains(name, ".") {
		return faulty(fmt.Errorf("rename: the new name %q has a dot: a renamed field stays where it is; to put it "+
			"elsewhere, use move", name))
	}
	return Move(path, path[:strings.LastIndex(path, ".")+1]+name)
}

// Move moves a field to another place and creates the objects on the way. A payload without the
// field does not change; one that has both is an error.
func Move(from, to string) Upcaster {
	source, err := parsePath(from)
	if err != nil {
		return faulty(err)
	}
	target, err := parsePath(to)
	if err != nil {
		return faulty(err)
	}
	if len(target) >= len(source) && slices.Equal(target[:len(source)], source) {
		return faulty(fmt.Errorf("%s cannot go to %s: a field cannot become itself or a part of itself", from, to))
	}
	u := editing(func(o object) error { return o.move(source, target) }, "move", map[string]string{from: to})
	u.moves = []move{{from, to}}
	return u
}

// Default sets an absent field and creates the objects on the way. A null field counts as present.
// value is anything encoding/json can encode.
func Default(path string, value any) Upcaster {
	target, err := parsePath(path)
	if err != nil {
		return faulty(err)
	}
	encoded, err := encodeJSON(value)
	if err != nil {
		return faulty(fmt.Errorf("the value of %s: %w", target, err))
	}
	return editing(func(o object) error {
		return o.at(target, true, func(parent object, name string) error {
			if _, there := parent[name]; !there {
				parent[name] = encoded
			}
			return nil
		})
	}, "default", map[string]json.RawMessage{path: encoded})
}

// Remove removes fields; absent ones are no error.
func Remove(paths ...string) Upcaster {
	all := make([]Upcaster, len(paths))
	for i, path := range paths {
		target, err := parsePath(path)
		if err != nil {
			all[i] = faulty(err)
			continue
		}
		all[i] = editing(func(o object) error {
			return o.at(target, false, func(parent object, name string) error {
				delete(parent, name)
				return nil
			})
		}, "remove", []string{path})
	}
	return Chain(all...)
}

// Convert makes an upcaster of code. It must be pure: the same result each time, no change to its input, safe
// for concurrent use. An error, a panic or a result that is not a JSON object fails the event alone.
func Convert(convert func(payload json.RawMessage) (json.RawMessage, error)) Upcaster {
	if convert == nil {
		return faulty(errors.New("convert: there is no function"))
	}
	return Upcaster{steps: []step{{convert: convert}}}
}

// Chain runs upcasters one after another, as one step between versions.
func Chain(upcasters ...Upcaster) Upcaster {
	all := Upcaster{steps: []step{}}
	var mistakes []error
	for _, u := range upcasters {
		all.steps, all.moves = append(all.steps, u.steps...), append(all.moves, u.moves...)
		if u.err != nil {
			mistakes = append(mistakes, u.err)
		} else if u.isZero() {
			mistakes = append(mistakes, errors.New("an element of the chain is empty"))
		}
	}
	all.err = errors.Join(mistakes...)
	return all
}

// editing returns an upcaster of one step, and how a file has it.
func editing(edit func(object) error, name string, args any) Upcaster {
	return Upcaster{steps: []step{{edit: edit, written: map[string]any{name: args}}}}
}

// MarshalJSON returns the steps as in a file of package yamlfile. [Convert] has no steps: it is an error.
func (u Upcaster) MarshalJSON() ([]byte, error) {
	steps := make([]map[string]any, len(u.steps))
	for i, s := range u.steps {
		if s.written == nil {
			return nil, errors.New("an upcaster is code (catalogue.Convert), which only the program has")
		}
		steps[i] = s.written
	}
	return json.Marshal(steps)
}

// faulty returns an upcaster that [New] refuses.
func faulty(err error) Upcaster { return Upcaster{steps: []step{}, err: err} }

func (u Upcaster) isZero() bool { return u.steps == nil }

// upcast converts a payload to a JSON object of the next version. Steps that follow each other share one
// decoding and one encoding.
func (u Upcaster) upcast(payload json.RawMessage) (_ json.RawMessage, err error) {
	var decoded object
	for _, s := range u.steps {
		if s.convert != nil {
			if payload, err = decoded.encoded(payload); err == nil {
				payload, err = converted(s.convert, payload)
			}
			decoded = nil
		} else {
			if decoded == nil {
				decoded, err = decodeObject(payload)
			}
			if err == nil {
				err = s.edit(decoded)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return decoded.encoded(payload)
}

// encoded returns the object, or a payload that was not decoded.
func (o object) encoded(payload json.RawMessage) (json.RawMessage, error) {
	if o == nil {
		return payload, nil
	}
	return encodeJSON(o)
}

// converted turns a panic into an error, so that it costs one event and not the process.
func converted(
	convert func(json.RawMessage) (json.RawMessage, error), payload json.RawMessage,
) (next json.RawMessage, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the upcaster panicked: %v\n%s", r, debug.Stack())
		}
	}()
	next, err = convert(payload)
	if err != nil {
		return nil, err
	}
	if reason := text.CheckObject(next); reason != "" || len(next) == 0 {
		return nil, errors.New("the upcaster's result " + cmp.Or(reason, "is not valid JSON"))
	}
	return next, nil
}
