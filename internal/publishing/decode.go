package publishing

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// errNoted is what a sink's settings answer whose mistakes have been noted already, each at its line.
var errNoted = errors.New("the settings have mistakes")

// decode puts fields into a pointer to a struct, by its yaml tags, and notes all that is wrong with
// them. What is no text, number, truth value, length of time, list or mapping of texts is left to
// the YAML package.
func (f *file) decode(fields []field, whose string, into any) error {
	if len(fields) == 0 {
		return nil
	}
	before := len(f.mistakes)
	target := reflect.ValueOf(into).Elem()
	places, known := map[string]reflect.Value{}, []string{"kind", "url"}
	for i := range target.NumField() {
		name, _, _ := strings.Cut(target.Type().Field(i).Tag.Get("yaml"), ",")
		places[name] = target.Field(i)
		if !slices.Contains(known, name) {
			known = append(known, name)
		}
	}
	for _, at := range fields {
		place, ok := places[at.name]
		switch {
		case !ok:
			f.wrong(at.key, "%s: unknown field %q: a sink of this kind may have %s", whose, at.name, strings.Join(known, ", "))
		case !isEmpty(at.value):
			f.put(at, whose, place)
		}
	}
	if len(f.mistakes) > before {
		return errNoted
	}
	return nil
}

// put puts one field into its place.
func (f *file) put(at field, whose string, place reflect.Value) {
	at.name = whose + ": " + at.name
	switch into := place.Addr().Interface().(type) {
	case *string:
		*into = f.text(at)
	case *bool:
		*into = f.truth(at)
	case **bool:
		truth := f.truth(at)
		*into = &truth
	case *int:
		text := f.text(at)
		n, err := strconv.Atoi(text)
		if err != nil {
			f.wrong(at.key, "%s is %q, it must be a whole number", at.name, text)
		}
		*into = n
	case *time.Duration:
		text := f.text(at)
		d, err := time.ParseDuration(text)
		if err != nil {
			f.wrong(at.key, "%s is %q, it must be a length of time such as 500ms, 30s or 5m", at.name, text)
		}
		*into = d
	case *[]string:
		*into = f.texts(at)
	case *map[string]string:
		*into = map[string]string{}
		for _, entry := range f.fields(at.value, at.name) {
			(*into)[entry.name] = f.text(entry)
		}
	default:
		if err := yaml.NodeToValue(at.value, into, yaml.Strict()); err != nil {
			f.wrongYAML(at.key, err, "%s", at.name)
		}
	}
}

// truth answers true or false.
func (f *file) truth(at field) bool {
	text := f.text(at)
	truth, err := strconv.ParseBool(text)
	if err != nil {
		f.wrong(at.key, "%s is %q, it must be true or false", at.name, text)
	}
	return truth
}

// each answers the errors that were joined, or the one there is.
func each(err error) (errs []error) {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var texts []string
	for _, one := range joined.Unwrap() {
		errs, texts = append(errs, each(one)...), append(texts, one.Error())
	}
	if strings.Join(texts, "\n") != err.Error() { // one that says something of several
		return []error{err}
	}
	return errs
}
