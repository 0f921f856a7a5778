package fastjson_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/internal/eventstate"
	"github.com/tidemark-go/tidemark/internal/fastjson"
)

type rank string

type loud string

func (l *loud) UnmarshalText(text []byte) error {
	*l = loud(strings.ToUpper(string(text)))
	return nil
}

type place struct {
	X, Y int
	Name string `json:"name,omitempty"`
}

// all has a field of every kind.
type all struct {
	Name     string  `json:"name"`
	Rank     rank    `json:"rank"`
	Loud     loud    `json:"loud"`
	On       bool    `json:"on"`
	Int      int     `json:"int"`
	Tiny     int8    `json:"tiny"`
	Unsigned uint16  `json:"unsigned"`
	Big      uint64  `json:"big"`
	Half     float32 `json:"half"`
	Float    float64 `json:"float"`
	Place    place   `json:"place"`
	Maybe    *string `json:"maybe"`
	Where    *place  `json:"where"`
	At       time.Time
	ID       uuid.UUID       `json:"id"`
	Tags     []string        `json:"tags"`
	Places   []place         `json:"places"`
	Counts   map[string]int  `json:"counts"`
	Any      any             `json:"any"`
	Raw      json.RawMessage `json:"raw"`
	Number   json.Number     `json:"number"`
	Bytes    []byte          `json:"bytes"`
	Skipped  string          `json:"-"`
}

type embedded struct {
	place
	Name string `json:"name"`
}

type quoted struct {
	Int int `json:"int,string"`
}

type twice struct {
	A string `json:"a"`
	B string `json:"A"`
}

// unicode has a name that starts with the Kelvin sign. An ASCII key matches it when case is folded.
type unicode struct {
	K string `json:"\u212aelvin"`
}

// kelvin has an ASCII name that a key with the Kelvin sign matches.
type kelvin struct {
	K string `json:"kelvin"`
}

func seeds() []string {
	return []string{
		`{}`, ` { } `, ``, `null`, `[]`, `"a"`, `{`, `{"name"`, `{"name":`, `{"name":"a"`, `{"name":"a",}`, `{"name":"a"}x`,
		`{"name":"a"}  `, `{,}`,
		`{"name":"a","name":"b"}`, `{"name":"a","name":null}`, `{"NAME":"a"}`, `{"Name":"a","name":"b"}`,
		`{"na\u006de":"a"}`, "{\"name\":\"a\nb\"}", `{"name":"a\nb\ud83d\ude00\ud83d"}`,
		"{\"name\":\"\xff\"}", "{\"\xff\":1}", "{\"name\":\"é\"}", `{"name":"\q"}`, `{"name":"\u12g4"}`, `{"name":1}`,
		`{"name":{}}`, `{"rank":"x","loud":"y"}`,
		`{"on":true}`, `{"on":false}`, `{"on":null}`, `{"on":nullx}`, `{"on":truex}`, `{"on":1}`, `{"on":tru`,
		`{"int":0}`, `{"int":-0}`, `{"int":01}`, `{"int":-}`, `{"int":1.0}`, `{"int":1e2}`, `{"int":+1}`,
		`{"int":9223372036854775807}`, `{"int":9223372036854775808}`, `{"int":"1"}`,
		`{"tiny":127}`, `{"tiny":128}`, `{"tiny":-128}`, `{"unsigned":65535}`, `{"unsigned":65536}`, `{"unsigned":-0}`,
		`{"unsigned":-1}`, `{"big":18446744073709551615}`,
		`{"half":1e38}`, `{"half":1e39}`, `{"float":-0}`, `{"float":1.}`, `{"float":.5}`, `{"float":1e}`, `{"float":1e+}`,
		`{"float":1e999}`, `{"float":00}`, `{"float":-1.25E-3}`, `{"float":0x1p4}`,
		`{"float":1_0}`, `{"float":Infinity}`, `{"float":null}`,
		`{"place":{"X":1,"name":"p"}}`, `{"place":{"x":1}}`, `{"place":null}`, `{"place":{"X":1},"place":{"Y":2}}`,
		`{"place":[]}`,
		`{"maybe":"a"}`, `{"maybe":null}`, `{"maybe":"a","maybe":null}`, `{"where":{"X":1},"where":{"Y":2}}`,
		`{"At":"2026-01-02T03:04:05Z"}`, `{"At":null}`, `{"At":"x"}`, `{"at":"2026-01-02T03:04:05Z"}`,
		`{"id":"0190163d-8694-739b-aea5-966c26f8ad91"}`, `{"tags":["a","b"],"tags":["c"]}`, `{"tags":null}`,
		`{"places":[{"X":1},{"Y":2}],"places":[{"Y":3}]}`, `{"counts":{"a":1},"counts":{"b":2}}`,
		`{"any":{"a":[1,"b",null,true]}}`, `{"raw": {"a" : 1} }`, `{"raw":null}`, `{"number":1.50}`, `{"number":"1"}`,
		`{"number":"x"}`, `{"bytes":"aGk="}`, `{"bytes":"!"}`,
		`{"-":"a","Skipped":"b","hidden":"c"}`, `{"other":{"a":[1,2,{"b":"\u00e9\\"}],"c":-1.5e3},"name":"a"}`,
		`{"other":[1,]}`, `{"other":{"a"}}`, `{"other":[01]}`, `{"other":"\x"}`, `{"other":nul}`,
		`{"other":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`, `{"any":` +
			strings.Repeat("[", 10001) + strings.Repeat("]", 10001) + `}`,
		"{\"\u212aelvin\":\"a\"}", `{"kelvin":"a"}`, `{"Kelvin":"a"}`, `{"a":"1","A":"2"}`, `{"int":"5"}`,
		`{"X":1,"name":"n"}`, "{\t\"name\"\r:\n\"a\" , \"int\" : 1 }",
		`{"character_id":"character-1","damage":5,"source":"a goblin with a rusty spoon"}`,
	}
}

// FuzzNew compares New with encoding/json: value and error must be equal.
func FuzzNew(f *testing.F) {
	for _, s := range seeds() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		same[all](t, data)
		same[place](t, data)
		same[embedded](t, data)
		same[quoted](t, data)
		same[twice](t, data)
		same[unicode](t, data)
		same[kelvin](t, data)
		same[loud](t, data)
		same[*place](t, data)
		same[map[string]any](t, data)
		same[any](t, data)
		same[struct{}](t, data)
	})
}

func same[T any](t *testing.T, data []byte) {
	t.Helper()
	var want T
	wantErr := json.Unmarshal(data, &want)
	got, gotErr := fastjson.New[T](data)
	if !reflect.DeepEqual(*got, want) || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
		t.Errorf("%s into %T:\ngot  %+v, %v\nwant %+v, %v", data, want, *got, gotErr, want, wantErr)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	t.Run("shares no memory with what it decodes", func(t *testing.T) {
		t.Parallel()
		data := []byte(`{"name":"before","int":1}`)
		got, err := fastjson.New[all](data)
		if err != nil {
			t.Fatal(err)
		}
		clear(data)
		if got.Name != "before" {
			t.Errorf("the name became %q when the payload changed", got.Name)
		}
	})
}

type damageTaken struct {
	CharacterID string `json:"character_id"`
	Damage      int64  `json:"damage"`
	Source      string `json:"source"`
}

func BenchmarkNew(b *testing.B) {
	data := []byte(`{"damage": 5, "source": "a goblin with a rusty spoon", "character_id": "character-1"}`)
	b.Run("here", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := fastjson.New[damageTaken](data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := json.Unmarshal(data, new(damageTaken)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func TestAProgramThatLinksItDecodesEventsWithIt(t *testing.T) {
	t.Parallel()
	var p place
	if eventstate.Quick == nil || !eventstate.Quick([]byte(`{"X": 3}`), &p) || p.X != 3 {
		t.Errorf("decoded is %+v", p)
	}
	if eventstate.Quick([]byte(`{"X": "three"}`), &p) {
		t.Error("a payload that does not fit is decoded")
	}
}
