// Package problem writes HTTP errors as application/problem+json (RFC 9457), with the rejected value,
// the limit and the remedy.
package problem

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
)

// Problem is an HTTP error. Empty fields are omitted from the JSON.
type Problem struct {
	Type   string `json:"type"`             // a URI reference that names the kind of problem; default "about:blank"
	Title  string `json:"title"`            // of the kind; default the status text
	Status int    `json:"status"`           // HTTP status
	Detail string `json:"detail,omitempty"` // what was wrong this time
	Field  string `json:"field,omitempty"`  // where: a parameter, a header or a field of the body
	Value  string `json:"value,omitempty"`  // the rejected value, cut to 256 bytes
	Limit  string `json:"limit,omitempty"`  // that the value must satisfy
	Remedy string `json:"remedy,omitempty"` // what to do
}

const valueBytes = 256

// Error returns the detail and the remedy.
func (p *Problem) Error() string {
	if p.Remedy == "" {
		return p.Detail
	}
	return p.Detail + ": " + p.Remedy
}

// New returns a problem.
func New(status int, detail, remedy string) *Problem {
	return &Problem{Status: status, Detail: detail, Remedy: remedy}
}

// Of sets the rejected field and value, and the limit, and returns p.
func (p *Problem) Of(field, value, limit string) *Problem {
	if len(value) > valueBytes {
		value = strings.ToValidUTF8(value[:valueBytes], "") + "…"
	}
	p.Field, p.Value, p.Limit = field, value, limit
	return p
}

// Write writes the problem as the response.
func Write(w http.ResponseWriter, p *Problem) {
	out := *p
	out.Type = cmp.Or(out.Type, "about:blank")
	out.Title = cmp.Or(out.Title, http.StatusText(out.Status))
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Del("ETag")
	w.WriteHeader(out.Status)
	_ = json.NewEncoder(w).Encode(&out)
}
