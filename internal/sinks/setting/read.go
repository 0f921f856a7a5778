// Package setting reads a sink's settings, under its own key, in the query of its URL, or both.
package setting

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Read reads the query of the settings' URL, and then the settings under the sink's own key, into a
// pointer to a struct, by its [Fields]. In the URL a list of strings is repeated or separated by
// commas. Mistakes in the URL are reported together.
func Read(s publisher.Settings, into any) error {
	if s.URL == nil {
		return s.Decode(into)
	}
	query, err := url.ParseQuery(s.URL.RawQuery)
	if err != nil { // the parser's error may show a password
		return errors.New("the URL's parameters cannot be read: write them as ?name=value&name=value, with % as %25")
	}
	fields := Fields(into)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(query)) {
		field, ok := fields.Find(name)
		if !ok {
			errs = append(errs, fmt.Errorf("the URL has a parameter %q: it may have %s", name, fields))
			continue
		}
		texts := query[name]
		if list, ok := field.Into.(*[]string); ok {
			*list = strings.Split(strings.Join(texts, ","), ",")
			continue
		}
		if want := field.Parse(texts[len(texts)-1]); want != "" {
			errs = append(errs, fmt.Errorf("%s is %q in the URL: it must be %s", name, texts[len(texts)-1], want))
		}
	}
	return errors.Join(append(errs, s.Decode(into))...)
}

// ReadWithoutAddress is [Read] for a kind whose URL has no address; why explains that in the error.
func ReadWithoutAddress(s publisher.Settings, into any, why string) error {
	if s.URL != nil && s.URL.Host+s.URL.Path+s.URL.Opaque != "" {
		return fmt.Errorf("the URL names %q, and %s", s.URL.Host+s.URL.Path+s.URL.Opaque, why)
	}
	return Read(s, into)
}

// Field is a struct field with a yaml tag, which is its name.
type Field struct {
	Name  string
	Into  any      // pointer to it
	OneOf []string // the allowed texts, from the tag "one"; empty: any
	Most  int      // the largest number, from the tag "most", which makes 1 the least; 0: any
}

// List is the fields of a struct, in order.
type List []Field

// String returns the fields' names, or none.
func (l List) String() string {
	if len(l) == 0 {
		return "none"
	}
	return strings.Join(slice.Of(l, func(field Field) string { return field.Name }), ", ")
}

// Find returns the field with a name.
func (l List) Find(name string) (found Field, ok bool) {
	i := slices.IndexFunc(l, func(field Field) bool { return field.Name == name })
	if i < 0 {
		return found, false
	}
	return l[i], true
}

// Fields returns the fields of a struct, given a pointer to it, including those of embedded structs.
func Fields(into any) List { return fieldsOf(reflect.ValueOf(into).Elem()) }

func fieldsOf(of reflect.Value) (list List) {
	for i := range of.NumField() {
		field := of.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		switch {
		case field.Anonymous:
			list = append(list, fieldsOf(of.Field(i))...)
		case name != "" && name != "-":
			most, _ := strconv.Atoi(field.Tag.Get("most"))
			list = append(list, Field{name, of.Field(i).Addr().Interface(), strings.Fields(field.Tag.Get("one")), most})
		}
	}
	return list
}

// Parse parses a text into a string, bool, int or time.Duration, or returns what the text must be.
func (f Field) Parse(text string) (want string) {
	var err error
	switch into := f.Into.(type) {
	case *string:
		if *into = text; len(f.OneOf) > 0 && !slices.Contains(f.OneOf, text) {
			return "one of " + strings.Join(f.OneOf, ", ")
		}
	case *bool:
		*into, err = strconv.ParseBool(text)
		want = "true or false"
	case *int:
		*into, err = strconv.Atoi(text)
		want = "a whole number"
		if f.Most > 0 {
			want = fmt.Sprintf("a whole number from 1 to %d", f.Most)
			if *into < 1 || *into > f.Most {
				return want
			}
		}
	case *time.Duration:
		if *into, err = time.ParseDuration(text); err == nil && *into < time.Millisecond {
			err = strconv.ErrRange
		}
		want = "a length of time such as 500ms, 30s or 5m, and at least 1ms"
	default:
		return "set in the file"
	}
	if err == nil {
		return ""
	}
	return want
}

// Servers returns the servers in a URL's host, which are separated by commas.
func Servers(u *url.URL) []string {
	return strings.FieldsFunc(u.Host, func(r rune) bool { return r == ',' })
}

// WithPorts returns servers as host:port, adding the default port where it is missing. At least one
// server is required; name is the setting's.
func WithPorts(name string, servers []string, port string) ([]string, error) {
	if len(servers) == 0 {
		return nil, fmt.Errorf("%s are missing: name at least one as host:port", name)
	}
	var errs []error
	whole := slices.Clone(servers)
	for i, server := range servers {
		host, own, err := net.SplitHostPort(server)
		if err != nil {
			host, own, err = net.SplitHostPort(server + ":" + port)
		}
		if n, convErr := strconv.ParseUint(own, 10, 16); err != nil || convErr != nil || n == 0 || host == "" {
			errs = append(errs, fmt.Errorf("%s holds %q: write host:port", name, server))
			continue
		}
		whole[i] = net.JoinHostPort(host, own)
	}
	return whole, errors.Join(errs...)
}
