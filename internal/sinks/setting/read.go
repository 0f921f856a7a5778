package setting

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Read reads the query of the settings' URL, and then what stands under the sink's own key, into a
// pointer to a struct, by its [Fields]. In the URL a list of strings is repeated, or separated by
// commas. Mistakes in the URL are reported together.
func Read(s publisher.Settings, into any) error {
	if s.URL == nil {
		return s.Decode(into)
	}
	query, err := url.ParseQuery(s.URL.RawQuery)
	if err != nil { // the parser's error may show a password
		return errors.New("the URL's parameters cannot be read: write them as ?name=value&name=value, with % as %25")
	}
	known, fields := Fields(into)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(query)) {
		field, ok := fields[name]
		if !ok {
			errs = append(errs, fmt.Errorf("the URL has a parameter %q: it may have %s", name, strings.Join(known, ", ")))
			continue
		}
		texts := query[name]
		if list, ok := field.(*[]string); ok {
			*list = strings.Split(strings.Join(texts, ","), ",")
			continue
		}
		text := texts[len(texts)-1]
		switch want, ok := Parse(field, text); {
		case !ok:
			errs = append(errs, fmt.Errorf("%s cannot be set in the URL: set it in the file", name))
		case want != "":
			errs = append(errs, fmt.Errorf("%s is %q in the URL: it must be %s", name, text, want))
		}
	}
	return errors.Join(append(errs, s.Decode(into))...)
}

// Fields answers pointers to a struct's fields that have a yaml tag, which is their name, and the
// names in order. Fields of embedded structs are the struct's own, as ",inline" says.
func Fields(into any) (names []string, fields map[string]any) {
	fields = map[string]any{}
	var add func(reflect.Value)
	add = func(of reflect.Value) {
		for i := range of.NumField() {
			field := of.Type().Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			switch {
			case field.Anonymous:
				add(of.Field(i))
			case name != "" && name != "-":
				names, fields[name] = append(names, name), of.Field(i).Addr().Interface()
			}
		}
	}
	add(reflect.ValueOf(into).Elem())
	return names, fields
}

// Parse reads a text into a pointer to a string, a bool, an int or a time.Duration. Where the text
// is none, it answers what it must be. It is not ok for pointers to anything else.
func Parse(into any, text string) (want string, ok bool) {
	var err error
	switch into := into.(type) {
	case *string:
		*into = text
	case *bool:
		*into, err = strconv.ParseBool(text)
		want = "true or false"
	case *int:
		*into, err = strconv.Atoi(text)
		want = "a whole number"
	case *time.Duration:
		*into, err = time.ParseDuration(text)
		want = "a length of time such as 500ms, 30s or 5m"
	default:
		return "", false
	}
	if err == nil {
		want = ""
	}
	return want, true
}
