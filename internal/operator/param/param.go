// Package param reads what acts and views are told: the fields of a struct are parameters, on the command line, in
// calls of the API and in forms.
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
	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/internal/store/outbox"
	"github.com/tidemark-go/tidemark/internal/store/publications"
)

// Param is what an act or a view is told. It is a field of the input's struct, with these tags:
//
//	name     in the API; default the field's name in snake_case; in the CLI with hyphens
//	arg      its placeholder: it is an argument of the command, and part of the path
//	help     one line
//	of       what it names, for completion: projection, campaign, failed, group, topic, publisher, worker …
//	usual    what the command line says where it is not given; the API and forms must say it
//	default  what holds where it is not given, as text
//	choices  the words that it may be, with commas between them
//	min      the least number, default 0
//	max      the highest one
//	form     "-": pages do not ask for it
//	offers   "lasting": a form offers some lengths of time, an hour first
//	required "true": it must be given
//	empty    "true": the values of a list may be empty texts
//	among    like choices, for words that are listed elsewhere: see among
//	page     of a view: "limit" has the size of a page, "after" the place where one begins
type Param struct {
	Name     string
	Arg      string // "": it is a flag
	Help     string
	Of       string
	Default  string
	Usual    string
	Choices  []string
	Min, Max int64 // of numbers
	Offers   []string
	NoForm   bool
	Required bool
	Empty    bool
	Type     Type

	Page string // "limit" or "after", of a list

	index []int // of the field
}

// Type is what the texts of a parameter mean.
type Type string

// The types. A field that is a pointer is nil where the parameter is not given.
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

// Texts answers what was given for a parameter, and whether something was.
type Texts func(name string) (values []string, given bool)

// Error is a value that a parameter does not take. It is an [admin.ErrInvalid].
type Error struct{ Param, Value, Limit, Detail, Remedy string }

// Refuse says what a parameter does not take, why, and what to do.
func Refuse(name, value, limit, detail, remedy string) error {
	return &Error{name, value, limit, detail, remedy}
}

// Error names the parameter, what is wrong, and what to do.
func (e *Error) Error() string {
	return fmt.Sprintf("%s %q: %s: %s", e.Param, e.Value, e.Detail, e.Remedy)
}

// Unwrap answers [admin.ErrInvalid].
func (e *Error) Unwrap() error { return admin.ErrInvalid }

// Flag is the parameter's name on the command line.
func (p Param) Flag() string { return strings.ReplaceAll(p.Name, "_", "-") }

// Of answers the parameters that the fields of a struct stand for, arguments first. As in Go, a field hides that of the
// same name in an embedded struct.
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
			NoForm: tag.Get("form") == "-", Empty: tag.Get("empty") != "",
			Required: tag.Get("required") != "" || tag.Get("arg") != "",
			Min:      number(tag.Get("min"), 0), Max: number(tag.Get("max"), math.MaxInt64), Type: typeOf(f.Type),
			index: f.Index,
			Page:  tag.Get("page"),
		}
		if words := among(tag.Get("among")); words != nil {
			p.Choices = words
			p.Help += ": " + strings.Join(words, ", ")
			if len(words) > 10 {
				p.Help = tag.Get("help") + ", such as " + strings.Join(words[:5], ", ")
			}
			if p.Type == Several {
				p.Help += "; may be given several times"
			}
		}
		found = append(found, p)
	}
	slices.SortStableFunc(found, func(a, b Param) int { return cmp.Compare(rank(a), rank(b)) })
	return found
}

// fieldsOf are the fields of a struct, and those of the structs in it, with their indexes from the outside.
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

func rank(p Param) int {
	if p.Arg != "" {
		return 0
	}
	return 1
}

// offers are choices of a form, each as value=name.
func offers(kind string) []string {
	if kind != "lasting" {
		return nil
	}
	return []string{
		"1h=1 hour", "15m=15 minutes", "4h=4 hours", "24h=a day", "168h=a week", "=never: until it is resumed",
	}
}

// among are the words of a parameter that another package lists.
func among(what string) []string {
	switch what {
	case "failed statuses":
		return texts(failed.Statuses())
	case "failed acts":
		return failed.Acts()
	case "failure classes":
		return texts(failure.Classes())
	case "parked statuses":
		return publications.ParkedStatuses()
	case "publisher acts":
		return publications.Acts()
	case "acts":
		return loggedActs()
	case "entry statuses":
		return texts(outbox.Statuses())
	case "operation states":
		return admin.OperationStates()
	case "sections":
		return texts(status.Sections())
	case "operation kinds":
		return texts(admin.OperationKinds())
	}
	return nil
}

func texts[T ~string](words []T) (found []string) {
	for _, word := range words {
		found = append(found, string(word))
	}
	return found
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
		panic(err) // a tag of this package's
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
	switch t.Kind() {
	case reflect.String:
		return Text
	case reflect.Int, reflect.Int64:
		return Number
	case reflect.Float64:
		return Share
	case reflect.Bool:
		return Switch
	case reflect.Slice:
		return Several
	case reflect.Struct:
		return Cursor
	}
	panic(fmt.Sprintf("a parameter is a %v", t))
}

// loggedActs are the acts that the operators' log may have.
func loggedActs() []string {
	acts := publications.Acts()
	for _, kind := range admin.Kinds() {
		if !slices.Contains(acts, string(kind)) {
			acts = append(acts, string(kind))
		}
	}
	return acts
}
