package api

import (
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// described is the description of a call in openapi.yaml.
type described struct {
	OperationID string `yaml:"operationId"`
	Role        string `yaml:"x-role"`
	Parameters  []parameter
	RequestBody *struct {
		Content map[string]struct{ Schema objectSchema }
	} `yaml:"requestBody"`
}

type parameter struct {
	Name, In string
	Ref      string `yaml:"$ref"`
}

type objectSchema struct {
	Properties map[string]objectSchema
}

// calls returns the calls in openapi.yaml by method and path. The parameters of each call include
// those of its path.
func calls(t *testing.T) map[string]described {
	t.Helper()
	var file struct {
		Paths map[string]map[string]any
	}
	if err := yaml.Unmarshal(description, &file); err != nil {
		t.Fatal(err)
	}
	found := map[string]described{}
	for path, methods := range file.Paths {
		var shared struct{ Parameters []parameter }
		read(t, map[string]any{"parameters": methods["parameters"]}, &shared)
		for method, raw := range methods {
			if method == "parameters" {
				continue
			}
			var d described
			read(t, raw, &d)
			d.Parameters = append(d.Parameters, shared.Parameters...)
			found[strings.ToUpper(method)+" "+path] = d
		}
	}
	return found
}

func read(t *testing.T, raw, into any) {
	t.Helper()
	text, err := yaml.Marshal(raw)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheDescriptionHasEveryCallAndNoOther(t *testing.T) {
	t.Parallel()
	found := calls(t)
	ids := map[string]bool{}
	for _, route := range (&API{}).Routes() {
		key := route.Method + " " + route.Pattern
		d, ok := found[key]
		if !ok {
			t.Errorf("%s is not described", key)
			continue
		}
		delete(found, key)
		if ids[route.OperationID] {
			t.Errorf("%s is two calls", route.OperationID)
		}
		ids[route.OperationID] = true
		if d.OperationID != route.OperationID || d.Role != route.Role.String() {
			t.Errorf("%s is described as %s for role %s, and is %s for role %s", key, d.OperationID, d.Role, route.OperationID,
				route.Role)
		}
		var names, refs []string
		for _, p := range d.Parameters {
			if p.In == "path" {
				names = append(names, p.Name)
			}
			refs = append(refs, p.Ref)
		}
		var want []string
		for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(route.Pattern, -1) {
			want = append(want, m[1])
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s is described with %q in its path", key, names)
		}
		if acts := route.Method == http.MethodPost; acts != slices.Contains(refs, "#/components/parameters/IdempotencyKey") {
			t.Errorf("%s: an act has an idempotency key, and nothing else has", key)
		}
		sameBody(t, key, route, d)
	}
	for key := range found {
		t.Errorf("%s is described, and there is no such endpoint", key)
	}
}

// sameBody compares the body that an act takes with its description.
func sameBody(t *testing.T, key string, route Route, d described) {
	t.Helper()
	if made, ok := route.Handler.(doing); ok {
		body := d.RequestBody.Content["application/json"].Schema.Properties
		if got := slices.Sorted(maps.Keys(body["with"].Properties)); !slices.Equal(got, made.fields()) {
			t.Errorf("%s is described with %q and takes %q", key, got, made.fields())
		}
		return
	}
	h, acts := route.Handler.(interface{ with() reflect.Type })
	if !acts || d.RequestBody == nil {
		if acts != (d.RequestBody != nil) {
			t.Errorf("%s: takes a body: %t, is described with one: %t", key, acts, d.RequestBody != nil)
		}
		return
	}
	body := d.RequestBody.Content["application/json"].Schema.Properties
	var got []string
	for name := range body["with"].Properties {
		got = append(got, name)
	}
	sort.Strings(got)
	if want := names(h.with()); !slices.Equal(got, want) || len(body) != 2 {
		t.Errorf("%s is described with %q and takes %q", key, got, want)
	}
}

// names returns the fields that a type is decoded from.
func names(of reflect.Type) (found []string) {
	for i := range of.NumField() {
		f := of.Field(i)
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag != "" {
			found = append(found, tag)
		} else if f.Anonymous {
			found = append(found, names(f.Type)...)
		} else {
			panic(fmt.Sprintf("%v.%s has no name in JSON", of, f.Name))
		}
	}
	sort.Strings(found)
	return found
}
