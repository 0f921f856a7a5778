package pages

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

// number returns a whole number from 0 of a query, or standard if it is missing.
func number(r *http.Request, name string, standard int64) (int64, error) {
	value := r.FormValue(name)
	if value == "" {
		return standard, nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		return 0, problem.New(http.StatusBadRequest, name+" is not a number from 0 up", "give digits only").Of(name, value,
			"0 to 9223372036854775807")
	}
	return n, nil
}

// required returns a text of a query. It returns an error if the text is missing.
func required(r *http.Request, name string) (string, error) {
	value := r.FormValue(name)
	if value == "" {
		return "", problem.New(http.StatusBadRequest, name+" is missing", "follow a link that names it").Of(name, "", "one")
	}
	return value, nil
}

const perPage = 50

type pager struct {
	First, Next string // URLs; "": no such page, or this page
	Shown       string // the rows on this page, in words
}

// pages returns a pager that keeps the rest of the URL. next is the cursor of the next page, or "" at
// the end.
func pages(r *http.Request, next, shown string) pager {
	p := pager{Shown: shown}
	if r.FormValue("after") != "" {
		p.First = with(r, "after", "")
	}
	if next != "" {
		p.Next = with(r, "after", next)
	}
	return p
}

func takes(r *http.Request, names []string) error {
	q := r.URL.Query()
	for name := range q {
		if !slices.Contains(names, name) {
			return problem.New(http.StatusBadRequest, "this page has no parameter "+name, "leave it out").Of(name,
				q.Get(name), strings.Join(names, ", "))
		}
	}
	return nil
}

// with returns this page's URL with another value of a parameter; "" removes the parameter.
func with(r *http.Request, name, value string) string {
	q := r.URL.Query()
	q.Del(name)
	if value != "" {
		q.Set(name, value)
	}
	if len(q) == 0 {
		return r.URL.Path
	}
	return r.URL.Path + "?" + q.Encode()
}
