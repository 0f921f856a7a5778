// Package param reads the parameters of acts and views. The fields of a struct are the parameters, on the
// command line, in API calls and in forms.
package param

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator/document"
	"github.com/tidemark-go/tidemark/internal/projector/failure"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/publications"
)

// Param is a parameter of an act or a view. It is a field of the input's struct with these tags:
//
//	name     name in the API; default the field's name in snake_case; in the CLI with hyphens
//	arg      placeholder of a positional argument, which is part of the API path
//	help     one line
//	of       what it names, for completion: projection, campaign, failed, group, topic, publisher, worker …
//	usual    default of the command line only; API and forms must give a value
//	default  default value, as text
//	choices  allowed words, separated by commas
//	min      smallest number, default 0
//	max      largest number
//	form     "-": forms do not have it
//	offers   "lasting": a form offers some durations, an hour first
//	hidden   "true": the log does not keep it
//	required "true": it must be given
//	empty    "true": values of a list may be empty
//	among    like choices, for words that are listed elsewhere: see among
//	page     of a view: "limit" is the page size, "after" is where the page begins
type Param struct {
	Name     string
	Arg      string // "": a flag
	Help     string
	Of       string
	Default  string
	Usual    string
	Choices  []string
	Min, Max int64 // for numbers
	Offers   []string
	NoForm   bool
	Hidden   bool
	Required bool
	Empty    bool
	Type     Type

	Page string // "limit" or "after", of a list

	index []int // of the field
}

// Type is the type that a parameter's text is parsed as.
type Type string

// The types. A pointer field is nil if the parameter is not given.
const (
	Text     Type = "string"
	Number   Type = "int"
	Share    Type = "float"
	Switch   Type = "bool"
	Duration Type = "duration" // such as 90s, 2h30m or 7d
	Time     Type = "time"     // RFC 3339
	Several  Type = "strings"
	Cursor   Type = "cursor" // a place in a list
)

// Texts returns the values of a parameter and reports whether it was given.
type Texts func(name string) (values []string, given bool)

// Error is an invalid value of a parameter. It wraps [admin.ErrInvalid].
type Error struct{ Param, Value, Limit, Detail, Remedy string }

// Refuse returns an [Error].
func Refuse(name, value, limit, detail, remedy string) error {
	return &Error{name, value, limit, detail, remedy}
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s %q: %s: %s", e.Param, e.Value, e.Detail, e.Remedy)
}

// Unwrap returns [admin.ErrInvalid].
func (e *Error) Unwrap() error { return admin.ErrInvalid }

// Flag returns the name on the command line.
func (p Param) Flag() string { return strings.ReplaceAll(p.Name, "_", "-") }

// Names returns the names of parameters.
func Names(params []Param) []string { return slice.Of(params, func(p Param) string { return p.Name }) }

// Of returns the parameters of a struct, arguments first. As in Go, a field hides the field of the same
// name in an embedded struct.
func Of(in reflect.Type) (found []Param) {
	for _, f := range fieldsOf(in, nil) {
		if outer, ok := in.FieldByName(f.Name); ok && len(outer.Index) < len(f.Index) {
			continue
		}
		tag := f.Tag
		p := Param{
			Name: cmp.Or(tag.Get("name"), document.Snake(f.Name)), Arg: tag.Get("arg"), Help: tag.Get("help"), Of: tag.Get("of"),
			Default: tag.Get("default"), Usual: tag.Get("usual"),
			Choices: words(tag.Get("choices")), Offers: offers(tag.Get("offers")),
			NoForm: tag.Get("form") == "-", Hidden: tag.Get("hidden") != "", Empty: tag.Get("empty") != "",
			Required: tag.Get("required") != "" || tag.Get("arg") != "",
			Min:      number(tag.Get("min"), 0), Max: number(tag.Get("max"), math.MaxInt64), Type: typeOf(f.Type),
			index: f.Index,
			Page:  tag.Get("page"),
		}
		if what := tag.Get("among"); what != "" {
			words := among()[what]
			p.Choices = words
			p.Help += ": " + strings.Join(words, ", ")
			if len(words) > 12 {
				p.Help = tag.Get("help") + ", such as " + strings.Join(words[:5], ", ")
			}
			if p.Type == Several {
				p.Help += "; may be given several times"
			}
		}
		found = append(found, p)
	}
	slices.SortStableFunc(found, func(a, b Param) int { return min(len(b.Arg), 1) - min(len(a.Arg), 1) })
	return found
}

// fieldsOf returns the fields of a struct and of structs in it, with their index from the outermost.
func fieldsOf(in reflect.Type, outer []int) (found []reflect.StructField) {
	for i := range in.NumField() {
		f := in.Field(i)
		f.Index = append(slices.Clone(outer), i)
		if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[time.Time]() {
			found = append(found, fieldsOf(f.Type, f.Index)...)
		} else {
			found = append(found, f)
		}
	}
	return found
}

// offers returns choices of a form as value=name.
func offers(kind string) []string {
	if kind != "lasting" {
		return nil
	}
	return []string{
		"1h=1 hour", "15m=15 minutes", "4h=4 hours", "24h=a day", "168h=a week", "=never: until it is resumed",
	}
}

func among() map[string][]string {
	return map[string][]string{
		"failed statuses":  texts(failed.Statuses()),
		"failed acts":      failed.Acts(),
		"failure classes":  texts(failure.Classes()),
		"parked statuses":  publications.ParkedStatuses(),
		"publisher acts":   publications.Acts(),
		"acts":             loggedActs(),
		"entry statuses":   texts(outbox.Statuses()),
		"operation states": admin.OperationStates(),
		"sections":         texts(status.Sections()),
		"operation kinds":  texts(admin.OperationKinds()),
	}
}

func texts[T ~string](words []T) []string {
	return slice.Of(words, func(word T) string { return string(word) })
}

func words(text string) []string {
	if text == "" || text == "-" {
		return nil
	}
	return strings.Split(text, ",")
}

func number(text string, otherwise int64) int64 {
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err) // a tag is wrong
	}
	return n
}

func typeOf(t reflect.Type) Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[time.Duration]():
		return Duration
	case reflect.TypeFor[time.Time]():
		return Time
	}
	kind, known := map[reflect.Kind]Type{
		reflect.String: Text, reflect.Int: Number, reflect.Int64: Number, reflect.Float64: Share, reflect.Bool: Switch,
		reflect.Slice: Several, reflect.Struct: Cursor,
	}[t.Kind()]
	if !known {
		panic(fmt.Sprintf("a parameter is a %v", t))
	}
	return kind
}

// loggedActs returns the acts that the operators' log can contain.
func loggedActs() []string {
	acts := publications.Acts()
	for _, kind := range slices.Concat(admin.Kinds(), admin.Written()) {
		if !slices.Contains(acts, string(kind)) {
			acts = append(acts, string(kind))
		}
	}
	return acts
}
