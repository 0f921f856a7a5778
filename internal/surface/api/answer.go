package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/tidemark-go/tidemark/internal/operator/document"
)

// get responds with a document and its ETag, or 304 if the client has that version.
func (a *API) get(read func(r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer, err := read(r)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		body, err := json.Marshal(answer)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		sum := sha256.Sum256(body)
		tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
		h := w.Header()
		h.Set("ETag", tag)
		h.Set("Cache-Control", "private, no-cache")
		h.Set("Vary", "Authorization, Cookie")
		if matches(r.Header.Get("If-None-Match"), tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", "application/json")
		_, _ = w.Write(append(body, '\n'))
	}
}

func matches(list, tag string) bool {
	for t := range strings.SplitSeq(list, ",") {
		if t = strings.TrimSpace(t); t == "*" || strings.TrimPrefix(t, "W/") == tag {
			return true
		}
	}
	return false
}

type page struct {
	document.List
	Next *string `json:"next"` // value for after; null: no more
}
