package fastjson

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// plans remembers what was found out of types: as encoding/json has it, a type never changes. nil:
// it is left to encoding/json.
var plans sync.Map //nolint:gochecknoglobals // reflect.Type to *plan

// plan is how to decode a struct.
type plan struct{ fields []field }

// field is where a member of an object goes.
type field struct {
	name  string
	index int
	kind  reflect.Kind // Invalid: encoding/json decodes it
	plan  *plan        // of a struct
}

func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	p := newPlan(t)
	plans.Store(t, p)
	return p
}

// newPlan returns nil for what is not a struct, and for a struct with anything in it that is out of the ordinary.
func newPlan(t reflect.Type) *plan {
	if t.Kind() != reflect.Struct || decodesItself(t) {
		return nil
	}
	p := &plan{}
	for i := range t.NumField() {
		sf := t.Field(i)
		if sf.Anonymous {
			return nil
		}
		tag := sf.Tag.Get("json")
		if !sf.IsExported() || tag == "-" {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" {
			name = sf.Name
		}
		if !ordinary(name) || options != "" && options != "omitempty" && options != "omitzero" {
			return nil
		}
		for _, other := range p.fields {
			if strings.EqualFold(name, other.name) {
				return nil
			}
		}
		p.fields = append(p.fields, newField(name, i, sf.Type))
	}
	return p
}

func newField(name string, index int, t reflect.Type) field {
	f := field{name: name, index: index}
	if decodesItself(t) || t == reflect.TypeFor[json.Number]() {
		return f
	}
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		f.kind = t.Kind()
	case reflect.Struct:
		if f.plan = newPlan(t); f.plan != nil {
			f.kind = reflect.Struct
		}
	}
	return f
}

func decodesItself(t reflect.Type) bool {
	to := reflect.PointerTo(t)
	return to.Implements(reflect.TypeFor[json.Unmarshaler]()) || to.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// ordinary says whether encoding/json takes a name in a tag at its word.
func ordinary(name string) bool {
	return strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}) < 0
}

// field returns the field for a key, nil if there is none. It looks first where the key would be if
// members came in the order of fields. It does not know of a key that matches but for its case, nor
// of one beyond ASCII, which might.
func (p *plan) field(key []byte, next int) (f *field, known bool) {
	if next < len(p.fields) && string(key) == p.fields[next].name {
		return &p.fields[next], true
	}
	for i := range p.fields {
		if string(key) == p.fields[i].name {
			return &p.fields[i], true
		}
	}
	for i := range p.fields {
		if len(key) == len(p.fields[i].name) && strings.EqualFold(string(key), p.fields[i].name) {
			return nil, false
		}
	}
	for _, c := range key {
		if c >= 0x80 {
			return nil, false
		}
	}
	return nil, true
}
