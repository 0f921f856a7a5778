package api

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

// input parses the path and the query. It refuses unknown query parameters.
func input(
	r *http.Request, path string, params []param.Param, read func([]param.Param, param.Texts) (any, error),
) (any, error) {
	q := r.URL.Query()
	names := param.Names(asked(path, params))
	for name := range q {
		if !slices.Contains(names, name) {
			return nil, problem.New(http.StatusBadRequest, "there is no such parameter", "use one of those in limit").Of(name,
				q.Get(name), strings.Join(names, ", "))
		}
	}
	return read(params, func(name string) ([]string, bool) {
		if strings.Contains(path, "{"+name+"}") {
			return []string{r.PathValue(name)}, true
		}
		return q[name], q.Has(name)
	})
}

func asked(path string, params []param.Param) []param.Param {
	return slices.DeleteFunc(slices.Clone(params), func(p param.Param) bool {
		return strings.Contains(path, "{"+p.Name+"}")
	})
}

// decode reads the body into v. An empty body counts as an empty object.
func decode(r *http.Request, v any) error {
	if kind := r.Header.Get("Content-Type"); kind != "" {
		if media, _, err := mime.ParseMediaType(kind); err != nil || media != "application/json" {
			return problem.New(http.StatusUnsupportedMediaType, "the body is not JSON",
				"send Content-Type: application/json").Of("Content-Type", kind, "application/json")
		}
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			return nil
		}
		err = errors.New("there is data after the object")
	}
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return problem.New(http.StatusRequestEntityTooLarge, "the body is too large", "send less").Of("body", "",
			strconv.FormatInt(large.Limit, 10)+" bytes")
	}
	return problem.New(http.StatusBadRequest, "invalid body: "+err.Error(),
		"see /api/v1/openapi.yaml")
}
