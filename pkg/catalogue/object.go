package catalogue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// object is a JSON object. Only the fields on the way to an edit are decoded.
type object map[string]json.RawMessage

// move moves a field, if there is one.
func (o object) move(from, to fieldPath) error {
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
