// Package document converts values to the JSON of CLI and API. Names are in snake_case and times in
// UTC. A duration becomes seconds, with _seconds after its name. An empty list is [], a nil pointer or
// a zero time is null, an error is its text.
package document

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"time"
	"unicode"

	"github.com/tidemark-go/tidemark/internal/doctor"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Of converts v.
func Of(v any) any { return convert(reflect.ValueOf(v)) }

// List is a document of several things.
type List struct {
	Version int `json:"version"` // changes when a field is removed or changes its meaning
	Items   any `json:"items"`
}

// All returns the document of a list.
func All[T any](things []T) List { return List{1, Of(things)} }

// Single is a document of one thing.
type Single struct {
	Version int `json:"version"` // as that of List
	Item    any `json:"item"`
}

// One returns the document of one thing.
func One(v any) Single { return Single{1, Of(v)} }

// Standing is a status with its problems.
type Standing struct {
	status.Status
	Problems []status.Problem
}

// Status returns the document of a status.
func Status(s *status.Status) Single { return One(Standing{*s, s.Problems()}) }

// Found is what the doctor found.
type Found struct {
	Worst    doctor.Status
	Findings []doctor.Finding
}

func convert(v reflect.Value) any {
	if !v.IsValid() {
		return nil
	}
	switch x := v.Interface().(type) {
	case time.Time:
		if x.IsZero() {
			return nil
		}
		return x.UTC()
	case json.RawMessage:
		if len(x) == 0 {
			return nil
		}
		return x
	case error:
		return redact.Error(x)
	case event.Event:
		object := map[string]any{"unreadable": nil}
		fields(v, object)
		if unreadable := x.Unreadable(); unreadable != nil {
			object["unreadable"] = unreadable.Error()
		}
		return object
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return convert(v.Elem())
	case reflect.Slice, reflect.Array:
		if text, ok := v.Interface().(encoding.TextMarshaler); ok {
			return text
		}
		list := make([]any, v.Len())
		for i := range list {
			list[i] = convert(v.Index(i))
		}
		return list
	case reflect.Map:
		object := map[string]any{}
		for _, key := range v.MapKeys() {
			object[key.String()] = convert(v.MapIndex(key))
		}
		return object
	case reflect.Struct:
		object := map[string]any{}
		fields(v, object)
		return object
	}
	return v.Interface()
}

// fields adds the fields of a struct and of its embedded structs to object.
func fields(v reflect.Value, object map[string]any) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case !f.IsExported() || tag == "-":
		case f.Anonymous && f.Type.Kind() == reflect.Struct && tag == "":
			fields(v.Field(i), object)
		case f.Type == reflect.TypeFor[time.Duration]():
			object[Snake(f.Name)+"_seconds"] = time.Duration(v.Field(i).Int()).Seconds()
		case tag != "":
			object[tag] = convert(v.Field(i))
		default:
			object[Snake(f.Name)] = convert(v.Field(i))
		}
	}
}

// Snake converts CampaignID to campaign_id.
func Snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if unicode.IsUpper(r) && i > 0 && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
