package publishing

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/tidemark-go/tidemark/internal/sinks/setting"
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
	names, places := setting.Fields(into)
	known := []string{"kind", "url"}
	for _, name := range names {
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
func (f *file) put(at field, whose string, place any) {
	at.name = whose + ": " + at.name
	switch into := place.(type) {
	case *[]string:
		*into = f.texts(at)
		return
	case *map[string]string:
		*into = map[string]string{}
		for _, entry := range f.fields(at.value, at.name) {
			(*into)[entry.name] = f.text(entry)
		}
		return
	case *string, *bool, *int, *time.Duration:
		text := f.text(at)
		if want, _ := setting.Parse(into, text); want != "" {
			f.wrong(at.key, "%s is %q, it must be %s", at.name, text, want)
		}
		return
	}
	if err := yaml.NodeToValue(at.value, place, yaml.Strict()); err != nil {
		f.wrongYAML(at.key, err, "%s", at.name)
	}
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
