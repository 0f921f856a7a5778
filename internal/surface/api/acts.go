package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/acts"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

func (a *API) actRoutes() (routes []Route) {
	for _, act := range acts.All() {
		routes = append(routes, Route{
			Method: http.MethodPost, Pattern: "/api/v1" + act.Path, Role: act.Role, OperationID: act.Name,
			Handler: doing{a, act},
		})
	}
	return routes
}

// doing handles the call of an act. The body has the reason, and the parameters under "with".
type doing struct {
	api *API
	act *acts.Act
}

// ServeHTTP does the act or its dry run.
func (d doing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	outcome, err := d.do(r)
	if err != nil {
		d.api.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(outcome)
}

func (d doing) do(r *http.Request) (*admin.Outcome, error) {
	var body struct {
		Reason string                     `json:"reason"`
		With   map[string]json.RawMessage `json:"with"`
	}
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	for name := range body.With {
		if !slices.Contains(d.fields(), name) {
			return nil, problem.New(http.StatusBadRequest, "invalid body: there is no such field",
				"use one of those in limit").Of("with."+name, "", strings.Join(d.fields(), ", "))
		}
	}
	texts := map[string][]string{}
	for name, raw := range body.With {
		values, err := textsOf(raw)
		if err != nil {
			return nil, problem.New(http.StatusBadRequest, "invalid body: "+err.Error(),
				"see /api/v1/openapi.yaml").Of("with."+name, string(raw), "")
		}
		if values != nil {
			texts[name] = values
		}
	}
	try := strings.Join(texts["dry_run"], "")
	if try != "" && try != "true" && try != "false" {
		return nil, problem.New(http.StatusBadRequest, "dry_run is true or false", "use one of them").Of("dry_run", try,
			"true, false")
	}
	in, err := d.act.Input(func(name string) ([]string, bool) {
		if strings.Contains(d.act.Path, "{"+name+"}") {
			return []string{r.PathValue(name)}, true
		}
		values, given := texts[name]
		return values, given
	})
	if err != nil {
		return nil, err
	}
	by := admin.Request{
		Who: auth.From(r.Context()), Reason: body.Reason, Key: r.Header.Get("Idempotency-Key"),
		Confirm: strings.Join(texts["confirm"], ""),
	}
	if try == "true" {
		plan, err := d.act.Preview(r.Context(), d.api.cfg.Acts, by, in)
		if err != nil {
			return nil, err
		}
		return plan.Found, nil
	}
	return d.act.Do(r.Context(), d.api.cfg.Acts, by, in)
}

func (d doing) fields() []string {
	names := param.Names(asked(d.act.Path, d.act.Params))
	if d.act.Confirms {
		names = append(names, "confirm")
	}
	if d.act.Previews() {
		names = append(names, "dry_run")
	}
	slices.Sort(names)
	return names
}

// textsOf returns a JSON value as texts, one per element of a list; nil for null.
func textsOf(raw json.RawMessage) ([]string, error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0, bytes.Equal(raw, []byte("null")):
		return nil, nil
	case raw[0] == '{':
		return nil, errors.New("it is an object")
	case raw[0] == '"':
		var text string
		err := json.Unmarshal(raw, &text)
		return []string{text}, err
	case raw[0] == '[':
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, err
		}
		all := []string{}
		for _, element := range list {
			texts, err := textsOf(element)
			if err != nil {
				return nil, err
			}
			all = append(all, texts...)
		}
		return all, nil
	}
	return []string{string(raw)}, nil
}
