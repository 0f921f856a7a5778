package param

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-go/tidemark/internal/operator/document"
)

// Read parses texts into a new value of type in. It returns an [Error] for the first invalid parameter.
func Read(in reflect.Type, params []Param, texts Texts) (any, error) {
	v := reflect.New(in).Elem()
	for _, p := range params {
		values, given := texts(p.Name)
		if !p.Empty {
			if p.Type == Several && slices.Contains(values, "") { // without it the choice would be wider
				return nil, Refuse(p.Name, "", "", "one of its values is empty", "name each")
			}
			values = slices.DeleteFunc(slices.Clone(values), func(value string) bool { return value == "" })
		}
		if len(values) == 0 && p.Default != "" {
			values = []string{p.Default}
		}
		if len(values) == 0 {
			if p.Required {
				return nil, Refuse(p.Name, "", limit(p), "it is missing", "name it")
			}
			if given && p.Type == Switch {
				return nil, p.refuse("", "it is not true or false")
			}
			continue
		}
		if len(values) > 1 && p.Type != Several {
			return nil, Refuse(p.Name, strings.Join(values, ", "), "1", "it is given more than once", "give it once")
		}
		if err := p.set(v.FieldByIndex(p.index), values); err != nil {
			return nil, err
		}
	}
	return v.Addr().Interface(), nil
}

// Given returns the non-zero fields of an input from [Read], named as in documents.
func Given(in any, params []Param) map[string]any {
	given, v := map[string]any{}, reflect.Indirect(reflect.ValueOf(in))
	for _, p := range params {
		name := document.Snake(v.Type().FieldByIndex(p.index).Name)
		switch field := v.FieldByIndex(p.index); {
		case field.IsZero():
		case p.Hidden:
			given[name] = "not kept"
		case p.Type == Duration:
			given[name] = fmt.Sprint(reflect.Indirect(field))
		default:
			given[name] = field.Interface()
		}
	}
	return given
}

// Hidden returns the values that [Given] leaves out.
func Hidden(in any, params []Param) (values []any) {
	for _, p := range params {
		if p.Hidden {
			values = append(values, reflect.Indirect(reflect.ValueOf(in)).FieldByIndex(p.index).Interface())
		}
	}
	return values
}

func (p Param) set(field reflect.Value, values []string) error {
	if field.Kind() == reflect.Pointer {
		field.Set(reflect.New(field.Type().Elem()))
		field = field.Elem()
	}
	text := values[0]
	switch p.Type {
	case Text, Several:
		return p.setTexts(field, values)
	case Number:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < p.Min || n > p.Max || field.OverflowInt(n) {
			return p.refuse(text, "it is not a valid number")
		}
		field.SetInt(n)
	case Share:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return p.refuse(text, "it is not a number")
		}
		field.SetFloat(f)
	case Switch:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return p.refuse(text, "it is not true or false")
		}
		field.SetBool(b)
	case Duration:
		d, err := ParseDuration(text)
		if err != nil {
			return p.refuse(text, err.Error())
		}
		field.SetInt(int64(d))
	case Cursor:
		return p.setCursor(field, text)
	case Time:
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return p.refuse(text, "it is not a time")
		}
		field.Set(reflect.ValueOf(at))
	}
	return nil
}

func (p Param) setTexts(field reflect.Value, values []string) error {
	for _, value := range values {
		if len(p.Choices) > 0 && !slices.Contains(p.Choices, value) {
			return p.refuse(value, "there is no such "+strings.ReplaceAll(p.Name, "_", " "))
		}
	}
	if p.Type == Text {
		field.SetString(values[0])
		return nil
	}
	field.Set(reflect.MakeSlice(field.Type(), len(values), len(values)))
	for i, value := range values {
		field.Index(i).SetString(value)
	}
	return nil
}

func (p Param) refuse(value, detail string) error {
	return Refuse(p.Name, value, limit(p), detail, remedy(p))
}

// limit describes the valid values; "": any.
func limit(p Param) string {
	switch {
	case len(p.Choices) > 0:
		return strings.Join(p.Choices, ", ")
	case p.Type == Number && p.Max < math.MaxInt64:
		return fmt.Sprintf("%d to %d", p.Min, p.Max)
	case p.Type == Number:
		return fmt.Sprintf("%d or more", p.Min)
	case p.Type == Duration:
		return "more than 0"
	}
	return ""
}

func remedy(p Param) string {
	switch {
	case len(p.Choices) > 0:
		return "use one of " + limit(p)
	case p.Type == Number:
		return "give a whole number, " + limit(p)
	case p.Type == Share:
		return "write it like 0.5"
	case p.Type == Switch:
		return "use true or false"
	case p.Type == Duration:
		return "write it like 90s, 15m, 2h or 7d"
	case p.Type == Time:
		return "write it like 2026-01-31T12:00:00Z"
	}
	return "name it"
}

var days = regexp.MustCompile(`^(\d{1,5})d(.*)$`)

// ParseDuration is [time.ParseDuration] for durations above 0, with days (d) as an additional first unit.
func ParseDuration(text string) (time.Duration, error) {
	sum, rest := time.Duration(0), text
	if m := days.FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1])
		sum, rest = time.Duration(n)*24*time.Hour, m[2]
	}
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil {
			return 0, errors.New("it is not a duration")
		}
		sum += d
	}
	if sum <= 0 {
		return 0, errors.New("it is not above zero")
	}
	return sum, nil
}

// WriteCursor encodes a place for next and after.
func WriteCursor(place any) string {
	switch v := reflect.ValueOf(place); v.Kind() {
	case reflect.Invalid:
		return ""
	case reflect.String, reflect.Int64:
		return fmt.Sprint(place)
	}
	raw, err := json.Marshal(place)
	if err != nil {
		panic(err) // a place has a wrong type
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

func (p Param) setCursor(field reflect.Value, text string) error {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(raw, field.Addr().Interface()) != nil {
		return Refuse(
			p.Name, text, "", "the cursor is not from this list", "use next of the previous page, or start without one",
		)
	}
	return nil
}
