// Package fastjson decodes JSON exactly as encoding/json does, but faster: decoding with
// encoding/json takes most of the time a worker spends on an event. A fuzz test compares the two. A program
// that links this package decodes the payloads of events with it too.
package fastjson

import (
	"encoding/json"

	quick "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	v1 "github.com/go-json-experiment/json/v1"

	"github.com/tidemark-go/tidemark/internal/eventstate"
)

func init() { eventstate.Quick = decode } //nolint:gochecknoinits // pkg/event does not import this package

// options are those of encoding/json, plus json.Number, which the package lacks.
var options = quick.JoinOptions( //nolint:gochecknoglobals // a constant
	v1.DefaultOptionsV1(),
	quick.WithUnmarshalers(quick.UnmarshalFromFunc(func(d *jsontext.Decoder, n *json.Number) error {
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		return json.Unmarshal(value, n)
	})),
)

// New decodes data into a new T. Value and error are those of json.Unmarshal; on an error the value
// is what json.Unmarshal leaves. It is safe for concurrent use.
func New[T any](data []byte) (*T, error) {
	v := new(T)
	if decode(data, v) {
		return v, nil
	}
	v = new(T)
	return v, json.Unmarshal(data, v)
}

// decode reports whether it could.
func decode(data []byte, into any) bool { return quick.Unmarshal(data, into, options) == nil }
