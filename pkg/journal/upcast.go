package journal

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
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

// object is a JSON object. Only the fields on the way to an edit are decoded.
type object map[string]json.RawMessage

// edit changes the fields of a payload. Several edits share one decoding and one encoding.
type edit func(object) error

// upcast runs the edit as an [Upcaster].
func (e edit) upcast(payload json.RawMessage) (json.RawMessage, error) {
	o, err := decodeObject(payload)
	if err != nil {
		return nil, err
	}
	if err := e(o); err != nil {
		return nil, err
	}
	return encodeJSON(o)
}

func inOrder(edits []edit) edit {
	return func(o object) error {
		for _, e := range edits {
			if err := e(o); err != nil {
				return err
			}
		}
		return nil
	}
}

func renameEdit(path, name string) (edit, error) {
	if strings.Contains(name, ".") {
		return nil, fmt.Errorf("rename: the new name %q has a dot: a renamed field stays where it is; to put it "+
			"elsewhere, use move", name)
	}
	return moveEdit(path, renamed(path, name))
}

// renamed returns the path of a field with another name.
func renamed(path, name string) string { return path[:strings.LastIndex(path, ".")+1] + name }

func moveEdit(source, target string) (edit, error) {
	from, err := parsePath(source)
	if err != nil {
		return nil, err
	}
	to, err := parsePath(target)
	if err != nil {
		return nil, err
	}
	if len(to) >= len(from) && slices.Equal(to[:len(from)], from) {
		return nil, fmt.Errorf("%s cannot go to %s: a field cannot become itself or a part of itself", from, to)
	}
	return func(o object) error {
		var value json.RawMessage
		err := o.at(from, false, func(parent object, name string) error {
			value = parent[name]
			delete(parent, name)
			return nil
		})
		if err != nil || value == nil {
			return err
		}
		return o.at(to, true, func(parent object, name string) error {
			if _, there := parent[name]; there {
				return fmt.Errorf("move %s to %s: the payload has both: remove one of them first", from, to)
			}
			parent[name] = value
			return nil
		})
	}, nil
}

func defaultEdit(path string, value any) (edit, error) {
	target, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	encoded, err := encodeJSON(value)
	if err != nil {
		return nil, fmt.Errorf("the value of %s: %w", target, err)
	}
	return func(o object) error {
		return o.at(target, true, func(parent object, name string) error {
			if _, there := parent[name]; !there {
				parent[name] = encoded
			}
			return nil
		})
	}, nil
}

func removeEdit(paths ...string) (edit, error) {
	var edits []edit
	for _, path := range paths {
		target, err := parsePath(path)
		if err != nil {
			return nil, err
		}
		edits = append(edits, func(o object) error {
			return o.at(target, false, func(parent object, name string) error {
				delete(parent, name)
				return nil
			})
		})
	}
	return inOrder(edits), nil
}

// at calls change with the object that holds path's last field, and that field's name. If an object
// on the way is missing, it creates it if create is set and otherwise calls nothing. It never
// replaces another value on the way.
func (o object) at(path fieldPath, create bool, change func(parent object, name string) error) error {
	name := path[0]
	if len(path) == 1 {
		return change(o, name)
	}
	raw, there := o[name]
	if !there {
		if !create {
			return nil
		}
		raw = json.RawMessage("{}")
	}
	child, err := decodeObject(raw)
	switch {
	case err != nil && !create:
		return nil
	case err != nil:
		return fmt.Errorf("%s on the way to %s: %w", fieldPath{name}, path, err)
	}
	if err := child.at(path[1:], create, change); err != nil {
		return err
	}
	o[name], err = encodeJSON(child)
	return err
}

// through calls change with each object that holds path's last field, and the place of that field. Arrays
// on the way stand for all their elements, whose places have their indexes.
func (o object) through(path fieldPath, under string, change func(parent object, name, place string)) {
	name := path[0]
	if len(path) == 1 {
		change(o, name, under+name)
	} else if raw, there := o[name]; there {
		o[name] = throughValue(raw, path[1:], under+name+".", change)
	}
}

func throughValue(
	raw json.RawMessage, path fieldPath, under string, change func(parent object, name, place string),
) json.RawMessage {
	var list []json.RawMessage
	var changed any
	if child, err := decodeObject(raw); err == nil {
		child.through(path, under, change)
		changed = child
	} else if json.Unmarshal(raw, &list) == nil && list != nil {
		for i := range list {
			list[i] = throughValue(list[i], path, under+strconv.Itoa(i)+".", change)
		}
		changed = list
	} else {
		return raw
	}
	encoded, err := encodeJSON(changed)
	if err != nil {
		return raw // it was decoded
	}
	return encoded
}

type fieldPath []string

// parsePath parses "hp" or "stats.hp".
func parsePath(s string) (fieldPath, error) {
	path := strings.Split(s, ".")
	if slices.Contains(path, "") {
		return nil, fmt.Errorf("field %q has an empty name: write it like \"hp\" or \"stats.hp\"", s)
	}
	return path, nil
}

func (p fieldPath) String() string { return strings.Join(p, ".") }

func decodeObject(data json.RawMessage) (object, error) {
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, errors.New("it is not a JSON object")
	}
	if o == nil {
		return nil, errors.New("it is null, not a JSON object")
	}
	return o, nil
}

// encodeJSON is json.Marshal without HTML escapes.
func encodeJSON(value any) (json.RawMessage, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
