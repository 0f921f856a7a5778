package feed

import (
	"sync"

	"github.com/tidemark-go/tidemark/internal/fastjson"
)

// Decode is [journal.Decode].
func Decode[T any](e Event) (T, error) {
	if err := e.Unreadable(); err != nil {
		return *new(T), err
	}
	if v, ok := e.decoded.get().(*T); ok {
		return *v, nil
	}
	v := new(T)
	if len(e.Payload) > 0 {
		var err error
		if v, err = fastjson.New[T](e.Payload); err != nil {
			return *v, &DecodeError{Type: e.Type, Err: err}
		}
	}
	e.decoded.set(v)
	return *v, nil
}

// decoded holds a pointer to a decoded payload. A nil *decoded holds nothing.
type decoded struct {
	mu    sync.Mutex
	value any
}

func (d *decoded) get() any {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.value
}

func (d *decoded) set(value any) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.value = value
}

// ForgetDecoded drops the decoded payload of an event whose payload has changed.
func ForgetDecoded(e *Event) { e.decoded = new(decoded) }
