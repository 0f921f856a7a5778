package fastjson

import (
	"encoding/json"
	"reflect"
	"strconv"
	"unicode/utf8"
)

// New decodes data into a new T. Value and error are those of json.Unmarshal; with an error the
// value is what it leaves. It may be called from many goroutines at once.
func New[T any](data []byte) (*T, error) {
	v := new(T)
	if p := planOf(reflect.TypeFor[T]()); p != nil {
		s := scanner{data: data}
		if p.object(&s, reflect.ValueOf(v).Elem()) && s.end() {
			return v, nil
		}
		v = new(T)
	}
	return v, json.Unmarshal(data, v)
}

// object decodes an object into v. It returns false where it does not know what encoding/json would
// do; v may have changed then.
func (p *plan) object(s *scanner, v reflect.Value) bool {
	if !s.token('{') {
		return false
	}
	if s.token('}') {
		return true
	}
	for next := 0; ; next++ {
		key, ok := s.plain()
		if !ok || !s.token(':') {
			return false
		}
		f, ok := p.field(key, next)
		if !ok {
			return false
		}
		s.space()
		if f == nil {
			if !s.skip(0) {
				return false
			}
		} else if !f.decode(s, v.Field(f.index)) {
			return false
		}
		if s.token(',') {
			continue
		}
		return s.token('}')
	}
}

// decode decodes the value that comes next.
func (f *field) decode(s *scanner, v reflect.Value) bool {
	if f.kind == reflect.Invalid {
		return leave(s, v)
	}
	if s.literal("null") {
		return true // leaves it as it is
	}
	switch f.kind {
	case reflect.Struct:
		return f.plan.object(s, v)
	case reflect.String:
		start := s.at
		b, ok := s.plain()
		if !ok || !utf8.Valid(b) {
			s.at = start
			return leave(s, v)
		}
		v.SetString(string(b))
	case reflect.Bool:
		b := s.literal("true")
		if !b && !s.literal("false") {
			return false
		}
		v.SetBool(b)
	case reflect.Float32, reflect.Float64:
		start := s.at
		if !s.number() {
			return false
		}
		n, err := strconv.ParseFloat(string(s.data[start:s.at]), v.Type().Bits())
		if err != nil {
			return false
		}
		v.SetFloat(n)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, ok := s.integer()
		if !ok || v.OverflowInt(n) {
			return false
		}
		v.SetInt(n)
	default: // unsigned
		if s.literal("-") {
			return false
		}
		n, ok := s.integer()
		if !ok || v.OverflowUint(uint64(n)) {
			return false
		}
		v.SetUint(uint64(n))
	}
	return true
}

// leave leaves a value to encoding/json.
func leave(s *scanner, v reflect.Value) bool {
	start := s.at
	return s.skip(0) && json.Unmarshal(s.data[start:s.at], v.Addr().Interface()) == nil
}
