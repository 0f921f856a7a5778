package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

const (
	pageSize = 100
	pageMost = 1000
)

// query reads a call's parameters, and keeps what is wrong with them.
type query struct {
	r    *http.Request
	used []string
	err  *problem.Problem
}

func parameters(r *http.Request) *query { return &query{r: r} }

func (q *query) refuse(name, value, limit, detail, remedy string) {
	if q.err == nil {
		q.err = problem.New(http.StatusBadRequest, detail, remedy).Of(name, value, limit)
	}
}

// text answers a parameter; "" where it is not there.
func (q *query) text(name string) string {
	q.used = append(q.used, name)
	values := q.r.URL.Query()[name]
	if len(values) > 1 {
		q.refuse(name, strings.Join(values, ", "), "1", "the parameter is there more than once", "give it once")
	}
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// projection answers the parameter of calls that cannot do without.
func (q *query) projection() string {
	name := q.text("projection")
	if name == "" {
		q.refuse("projection", "", "", "the projection is missing", "name one of /api/v1/projections")
	}
	return name
}

// choices answers a parameter that may be there several times, each time one of a few words.
func choices[T ~string](q *query, name string, words []T) (found []T) {
	for _, value := range q.list(name) {
		if !slices.Contains(words, T(value)) {
			known := strings.Trim(strings.ReplaceAll(fmt.Sprint(words), " ", ", "), "[]")
			q.refuse(name, value, known, "there is no such "+name, "use one of the limit's")
		}
		found = append(found, T(value))
	}
	return found
}

// list answers a parameter that may be there several times.
func (q *query) list(name string) []string {
	q.used = append(q.used, name)
	return q.r.URL.Query()[name]
}

func (q *query) number(name string, standard, least, most int64) int64 {
	text := q.text(name)
	if text == "" {
		return standard
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		q.refuse(name, text, strconv.FormatInt(least, 10)+" to "+strconv.FormatInt(most, 10),
			"the parameter is no number that is taken", "give a whole number within the limit")
	}
	return n
}

// neededNumber is number for a parameter that must be there.
func (q *query) neededNumber(name string, least int64, detail, remedy string) int64 {
	if q.r.URL.Query().Get(name) == "" {
		q.used = append(q.used, name)
		q.refuse(name, "", strconv.FormatInt(least, 10)+" or more", detail, remedy)
		return least
	}
	return q.number(name, least, least, math.MaxInt64)
}

// limit is the size of a page.
func (q *query) limit() int { return int(q.number("limit", pageSize, 1, pageMost)) }

// done answers what was wrong, parameters that there are none of among it.
func (q *query) done() error {
	for name := range q.r.URL.Query() {
		if !slices.Contains(q.used, name) {
			q.refuse(name, q.r.URL.Query().Get(name), strings.Join(q.used, ", "), "there is no such parameter",
				"use one of the limit's")
		}
	}
	if q.err == nil {
		return nil
	}
	return q.err
}

// decode reads the body into v. No body is an empty object.
func decode(r *http.Request, v any) error {
	if kind := r.Header.Get("Content-Type"); kind != "" {
		if media, _, err := mime.ParseMediaType(kind); err != nil || media != "application/json" {
			return problem.New(http.StatusUnsupportedMediaType, "the body is no JSON",
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
		err = errors.New("there is more after the object")
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return problem.New(http.StatusRequestEntityTooLarge, "the body is too large", "send less").Of("body", "",
			strconv.FormatInt(large.Limit, 10)+" bytes")
	}
	return problem.New(http.StatusBadRequest, "the body is not what the call takes: "+err.Error(),
		"see /api/v1/openapi.yaml")
}
