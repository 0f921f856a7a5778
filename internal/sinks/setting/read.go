package setting

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Read reads the query of the settings' URL, and then what stands under the sink's own key, into a
// pointer to a struct: the yaml tags of its fields are the names of both. A field is a string, a
// bool, an int, a time.Duration, or a list of strings (in the URL: repeated, or separated by
// commas). Mistakes in the URL are reported together.
func Read(s publisher.Settings, into any) error {
	if s.URL != nil {
		query, err := url.ParseQuery(s.URL.RawQuery)
		if err != nil { // the parser's error may show a password
			return errors.New("the URL's parameters cannot be read: write them as ?name=value&name=value, with % as %25")
		}
		return errors.Join(fill(query, reflect.ValueOf(into).Elem()), s.Decode(into))
	}
	return s.Decode(into)
}

func fill(query url.Values, into reflect.Value) error {
	fields, known := map[string]reflect.Value{}, []string{}
	for i := range into.NumField() {
		name, _, _ := strings.Cut(into.Type().Field(i).Tag.Get("yaml"), ",")
		fields[name], known = into.Field(i), append(known, name)
	}
	var names []string
	for name := range query {
		names = append(names, name)
	}
	slices.Sort(names)
	var errs []error
	for _, name := range names {
		field, ok := fields[name]
		if !ok {
			errs = append(errs, fmt.Errorf("the URL has a parameter %q: it may have %s", name, strings.Join(known, ", ")))
			continue
		}
		errs = append(errs, set(field, name, query[name]))
	}
	return errors.Join(errs...)
}

func set(field reflect.Value, name string, texts []string) error {
	text := texts[len(texts)-1]
	switch value := field.Addr().Interface().(type) {
	case *string:
		*value = text
	case *[]string:
		*value = strings.Split(strings.Join(texts, ","), ",")
	case *bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%s is %q in the URL: write true or false", name, text)
		}
		*value = b
	case *int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%s is %q in the URL: write a whole number", name, text)
		}
		*value = n
	case *time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%s is %q in the URL: write a duration such as 5s or 10ms", name, text)
		}
		*value = d
	default:
		return fmt.Errorf("%s cannot be set in the URL: set it in the file", name)
	}
	return nil
}
