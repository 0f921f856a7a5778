package apply_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/projector/apply"
	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// listed decodes the keys of an event; a key of its own stands in the field "gift".
func listed(e event.Event) ([]string, error) {
	p, err := event.Decode[struct {
		Keys []string
		Gift string
	}](e)
	if p.Gift != "" {
		p.Keys = append(p.Keys, "gift")
	}
	if slices.Contains(p.Keys, "panic") {
		panic("no such key")
	}
	return p.Keys, err
}

// TestKeysOfAnEventThatCannotBeRead has keys only if they are the same whatever the sealed fields hold.
func TestKeysOfAnEventThatCannotBeRead(t *testing.T) {
	t.Parallel()
	k := &registry.Projection{Keys: listed}
	closed, broken := &feed.ClosedError{Err: errors.New("closed")}, errors.New("unreadable")
	const sealed = `{"$sealed": "AAAA", "key": "01a21831-0aaf-7001-9512-0e2cf06179e0"}`
	for name, c := range map[string]struct {
		payload string
		fault   error
		want    string
	}{
		"read":                       {`{"keys": ["b", "a"]}`, nil, "b a"},
		"read, of none":              {`{}`, nil, ""},
		"read, of one that is spare": {`{"keys": ["a"], "gift": "x"}`, nil, "a gift"},
		"keys not found":             {`{"keys": 1}`, nil, "-!"},
		"a panic":                    {`{"keys": ["panic"]}`, nil, "-!"},
		"unreadable":                 {`{"keys": ["a", "b"]}`, broken, "-!"},
		"closed beside the keys":     {`{"keys": ["b", "a"], "mail": ` + sealed + `}`, closed, "a! b!"},
		"closed within a list":       {`{"keys": ["a"], "mails": [{"to": ` + sealed + `}]}`, closed, "a!"},
		"a closed key":               {`{"keys": ["a", ` + sealed + `]}`, closed, "-!"},
		"closed keys":                {`{"keys": ` + sealed + `}`, closed, "-!"},
		"closed, and a key by it":    {`{"keys": ["a"], "gift": ` + sealed + `}`, closed, "-!"},
		"closed, and no key":         {`{"mail": ` + sealed + `}`, closed, "-!"},
	} {
		e := event.Event{Position: 7, Intent: event.ProjectionAndReplay, Payload: []byte(c.payload)}
		var got []string
		for _, one := range apply.AppendKeyed(nil, k, &e, c.fault) {
			if got = append(got, one.Key); one.Fault != nil {
				got[len(got)-1] += "!"
			}
			if one.Event != &e {
				t.Errorf("%s: it is of another event", name)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %s", name, got, c.want)
		}
	}
}

func TestAnEventOfSeveralKeysIsLeftOutForOneOrForAll(t *testing.T) {
	t.Parallel()
	one, several := &registry.Projection{}, &registry.Projection{Keys: listed}
	for resolved, want := range map[string]string{"a": "a", "-": "a b", "erased": "a b", "c": ""} {
		var l, whole apply.LeftOut
		l.Add(several, resolved, 7)
		whole.Add(one, resolved, 7)
		var got []string
		for _, key := range []string{"a", "b"} {
			if l.Has(key, 7) {
				got = append(got, key)
			}
			if !whole.Has(key, 7) || l.Has(key, 8) || whole.Has(key, 8) {
				t.Errorf("resolved for %s: an event of one key is left out, and no other one", resolved)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("resolved for %s: left out for %q, want %s", resolved, got, want)
		}
	}
}
