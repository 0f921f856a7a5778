package catalogue

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// checkPayload finds a name that is not the Type's, and subject and personal fields that the Go type of the
// payloads lacks. An upcaster of code may have had fields of any name, so then none is looked for.
func (t *EventType) checkPayload() (mistakes []error) {
	if t.Type == nil {
		return nil
	}
	if name := t.Type.Name(); t.Name != name {
		mistakes = append(mistakes, fmt.Errorf("its Type is %s: give either Name or Type", name))
	}
	for _, u := range t.Upcast {
		if slices.ContainsFunc(u.steps, func(s step) bool { return s.convert != nil }) {
			return mistakes
		}
	}
	for _, path := range slices.Concat(t.Subject, t.Personal) {
		if strings.HasPrefix(path, "$") || hasField(t.Type.Payload(), strings.Split(path, ".")) {
			continue
		}
		mistakes = append(mistakes, fmt.Errorf("field %q is not in the JSON of %s: write it as the JSON has it", path,
			t.Type.Payload()))
	}
	return mistakes
}

// hasField reports whether the JSON of a Go type can have a field at a path.
func hasField(t reflect.Type, path []string) bool {
	for !encodesItself(t) && slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Array}, t.Kind()) {
		t = t.Elem()
	}
	switch {
	case len(path) == 0, encodesItself(t), t.Kind() == reflect.Interface:
		return true
	case t.Kind() == reflect.Map:
		return hasField(t.Elem(), path[1:])
	case t.Kind() != reflect.Struct:
		return false
	}
	return slices.ContainsFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool {
		name := cmp.Or(jsonName(f), f.Name)
		return f.IsExported() && f.Tag.Get("json") != "-" && isPromoted(t, f) && name == path[0] && hasField(f.Type, path[1:])
	})
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// isPromoted reports whether the JSON of t has a field at its top: an embedded struct with a name is an object.
func isPromoted(t reflect.Type, f reflect.StructField) bool {
	for n := 1; n < len(f.Index); n++ {
		if jsonName(t.FieldByIndex(f.Index[:n])) != "" {
			return false
		}
	}
	return true
}

// encodesItself reports whether a type has an encoding of its own, which may have any fields.
func encodesItself(t reflect.Type) bool {
	for _, of := range []reflect.Type{t, reflect.PointerTo(t)} {
		if of.Implements(reflect.TypeFor[json.Marshaler]()) || of.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
			return true
		}
	}
	return false
}
