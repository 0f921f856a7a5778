// Package fastjson decodes JSON as encoding/json does, only quicker: a worker decodes every event it applies, and
// encoding/json takes most of the time that it spends on one. A fuzz test holds the two against each other.
package fastjson

import (
	"encoding/json"

	quick "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	v1 "github.com/go-json-experiment/json/v1"
)

// options are those of encoding/json, whose numbers the package does not know by itself.
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

// New decodes data into a new T. Value and error are those of json.Unmarshal; with an error the
// value is what it leaves. It may be called from many goroutines at once.
func New[T any](data []byte) (*T, error) {
	v := new(T)
	if quick.Unmarshal(data, v, options) == nil {
		return v, nil
	}
	v = new(T)
	return v, json.Unmarshal(data, v)
}
