package api

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/internal/redact"
)

// document answers v as the API shows it: names in snake_case, times in UTC, a time that is zero and a pointer that is nil as null, a duration as seconds under its name with _seconds, an empty list as [],
// an error as its text. Types that write their own JSON, and structs with json tags, do so.
func document(v any) any { return convert(reflect.ValueOf(v)) }

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
	case *pgxpool.Pool:
		return nil
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

// fields adds the fields of a struct to an object, those of embedded structs among them.
func fields(v reflect.Value, object map[string]any) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case !f.IsExported() || tag == "-":
		case f.Anonymous && f.Type.Kind() == reflect.Struct && tag == "":
			fields(v.Field(i), object)
		case f.Type == reflect.TypeFor[time.Duration]():
			object[snake(f.Name)+"_seconds"] = time.Duration(v.Field(i).Int()).Seconds()
		case tag != "":
			object[tag] = convert(v.Field(i))
		default:
			object[snake(f.Name)] = convert(v.Field(i))
		}
	}
}

// snake writes CampaignID as campaign_id.
func snake(name string) string {
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
