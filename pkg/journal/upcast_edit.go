package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

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
	return moveEdit(path, path[:strings.LastIndex(path, ".")+1]+name)
}

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
		return nil, errors.New("it is no JSON object")
	}
	if o == nil {
		return nil, errors.New("it is null, and no JSON object")
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
