package pages

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

// perPage is how many rows a page of a list has.
const perPage = 50

// pager leads to other pages of a list.
type pager struct {
	First, Next string // addresses; "": there is no such page, or this is it
	Shown       string // what is on this page, in words
}

// after reads the place of a list's keyset from the address into place, and says whether there is one.
func after(r *http.Request, place any) (bool, error) {
	value := r.FormValue("after")
	if value == "" {
		return false, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(value)
	if err == nil {
		err = json.Unmarshal(raw, place)
	}
	if err != nil {
		return false, problem.New(http.StatusBadRequest, "after is no place in this list",
			"begin at the first page").Of("after", value, "what a page's link has")
	}
	return true, nil
}

// pages answers a pager: next is the keyset's place after the last row, nil at the end. What else
// the address says stays.
func pages(r *http.Request, next any, shown string) pager {
	p := pager{Shown: shown}
	if r.FormValue("after") != "" {
		p.First = with(r, "after", "")
	}
	if next != nil {
		raw, err := json.Marshal(next)
		if err == nil {
			p.Next = with(r, "after", base64.RawURLEncoding.EncodeToString(raw))
		}
	}
	return p
}

// with answers this page's address with another value of a parameter; "" leaves it out.
func with(r *http.Request, name, value string) string {
	q := r.URL.Query()
	q.Del(name)
	if value != "" {
		q.Set(name, value)
	}
	return address(r, q)
}

// without answers this page's address without some of its parameters.
func without(r *http.Request, names ...string) string {
	q := r.URL.Query()
	for _, name := range names {
		q.Del(name)
	}
	return address(r, q)
}

func address(r *http.Request, q url.Values) string {
	if len(q) == 0 {
		return r.URL.Path
	}
	return r.URL.Path + "?" + q.Encode()
}
