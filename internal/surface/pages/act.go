package pages

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/acts"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/redact"
	"github.com/tidemark-go/tidemark/internal/surface/problem"
)

// actBytes is the maximum size of an act's form.
const actBytes = 64 << 10

// act handles the form of the act in the path. It does the act and redirects to the page that the form
// came from, with its filter. That page shows the outcome or the reason why the act was not done.
func (p *Pages) act(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, actBytes)
	if err := r.ParseForm(); err != nil {
		p.write(r.Context(), w, r, p.failed(r.Context(),
			problem.New(http.StatusBadRequest, "the form is invalid or larger than 64 KiB", "shorten the reason")))
		return
	}
	if r.PostForm.Has("look") {
		p.show("plan", p.plan).ServeHTTP(w, r)
		return
	}
	req := admin.Request{
		Who: auth.From(r.Context()), Reason: strings.TrimSpace(r.PostFormValue("reason")),
		Key: r.PostFormValue("key"), Confirm: r.PostFormValue("confirm"),
	}
	act, outcome, text, err := p.do(r, req)
	switch {
	case errors.Is(err, admin.ErrForbidden):
		p.write(r.Context(), w, r, p.failed(r.Context(), err))
		return
	case err != nil:
		p.say(w, r, flash{
			Tone: "bad", Text: "Not done.", More: p.explain(r.Context(), err), Field: r.PostFormValue("field"),
			Typed: req.Reason,
		})
	case outcome != nil && outcome.Repeated:
		p.say(w, r, flash{
			Tone: "warn", Text: "This form was already sent; the act was done once.", More: text,
			Path: operationOf(outcome),
		})
	case act.File != "":
		p.write(r.Context(), w, r, view{Name: "file", Title: act.File, Data: filePage{
			act.File, text, blockJSON(outcome.Detail), base64.StdEncoding.EncodeToString(outcome.Detail),
		}})
		return
	default:
		p.say(w, r, flash{Tone: "ok", Text: text, Path: operationOf(outcome)})
	}
	http.Redirect(w, r, auth.Local(r.PostFormValue("back")), http.StatusSeeOther)
}

// filePage hands over the file of an act. It is shown once, and no table has it.
type filePage struct {
	File, Told string
	Text       text
	Base64     string
}

// do does the act with the form's input and returns its outcome and a text for the person.
func (p *Pages) do(r *http.Request, req admin.Request) (*acts.Act, *admin.Outcome, string, error) {
	act, ok := acts.Named(r.PathValue("act"))
	if !ok || act.NoForm {
		return nil, nil, "", problem.New(http.StatusNotFound, "there is no such act on pages", "reload the page")
	}
	in, err := act.Input(func(name string) ([]string, bool) {
		values, given := r.PostForm[name]
		return values, given
	})
	if err != nil {
		return nil, nil, "", err
	}
	o, err := act.Do(r.Context(), p.cfg.Acts, req, in)
	if err != nil {
		return nil, nil, "", err
	}
	return act, o, act.Told(in, o).Text, nil
}

// explain returns why an act was not done. Internal details go only to the log.
func (p *Pages) explain(ctx context.Context, err error) string {
	var refused *problem.Problem
	switch code := redact.SQLState(err); {
	case errors.As(err, &refused):
		return refused.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "It took too long; a part may be done. Do it again."
	case code == "57014" || code == "55P03":
		return "The database took too long; another session may be using it. Try again."
	case code != "" && !strings.HasPrefix(code, "TM"):
		p.cfg.Logger.ErrorContext(ctx, "act of an operator", "error", err)
		return "The database refused; the worker's log says why."
	}
	return redact.Error(err)
}

// actForm is the form of an act. Parameters that the page knows are hidden; the person fills in the
// others.
type actForm struct {
	*acts.Act
	ID        string // of the form; prefix of its fields' ids
	Title     string
	Open      bool   // open from the start
	Given     string // reason that was typed when it was sent and not done
	Hidden    []hiddenField
	Fields    []formField
	Typed     string // text to type as confirmation; "": none
	Back, Key string
}

type hiddenField struct{ Name, Value string }

type formField struct {
	ID, Name, Label, Help string
	Kind                  string // text, number, check, choice
	Value                 string
	Required              bool
	Options               []option
}

// Form returns the form of an act, or nil if the user may not do the act. pairs are names and values
// of parameters that the page knows. Names with a leading dot configure the form itself: .title, .open,
// .back and .typed; .value NAME and .options NAME for the value and the choices of a field; .hidden
// NAME for a hidden field that changes between readings of the page; .without for a parameter to omit.
func (f frame) Form(name string, pairs ...any) (*actForm, error) {
	act, ok := acts.Named(name)
	if !ok || len(pairs)%2 != 0 {
		return nil, fmt.Errorf("form %s: there is no such act, or a parameter has no value", name)
	}
	if f.id.Role < act.Role {
		return nil, nil
	}
	form := &actForm{Act: act, ID: name, Title: act.Button, Back: f.Back, Key: f.Key}
	g := givenToForm{map[string]string{}, map[string]string{}, map[string][]string{}}
	sum := fnv.New32a()
	for i := 0; i < len(pairs); i += 2 {
		key, value := fmt.Sprint(pairs[i]), fmt.Sprint(pairs[i+1])
		if strings.HasPrefix(key, ".") {
			g.configure(form, key, value, pairs[i+1])
			continue
		}
		g.fixed[key] = value
		form.Hidden = append(form.Hidden, hiddenField{key, value})
		_, _ = fmt.Fprintf(sum, "%s=%s;", key, value)
	}
	form.ID = name + "-" + strconv.FormatUint(uint64(sum.Sum32()), 36)
	if f.Flash != nil && f.Flash.Field == form.ID+"-reason" {
		form.Given = f.Flash.Typed
	}
	texts := func(name string) ([]string, bool) {
		value, ok := g.fixed[name]
		return []string{value}, ok
	}
	for _, p := range act.Params {
		if _, ok := g.fixed[p.Name]; ok || p.NoForm || g.values[p.Name] == "-" {
			continue
		}
		if p.Offers == nil && g.options[p.Name] != nil {
			p.Choices = g.options[p.Name]
		}
		form.Fields = append(form.Fields, fieldOf(form.ID, p, g.values[p.Name]))
	}
	form.Typed = cmp.Or(form.Typed, act.TypedFor(texts))
	return form, nil
}

// givenToForm is what a page knows about the fields of a form.
type givenToForm struct {
	fixed   map[string]string   // parameters that the user does not see
	values  map[string]string   // of fields; "-": there is no such field
	options map[string][]string // choices of fields
}

// configure takes over a pair whose name has a leading dot.
func (g *givenToForm) configure(form *actForm, key, value string, given any) {
	switch about, field, _ := strings.Cut(key, " "); about {
	case ".title":
		form.Title = value
	case ".open":
		form.Open = value == "true"
	case ".back":
		form.Back = value
	case ".typed":
		form.Typed = value
	case ".hidden":
		g.values[field] = "-"
		form.Hidden = append(form.Hidden, hiddenField{field, value})
	case ".value":
		g.values[field] = value
	case ".without":
		g.values[value] = "-"
	case ".options":
		g.options[field], _ = given.([]string)
	}
}

func fieldOf(form string, p param.Param, value string) formField {
	f := formField{
		ID: form + "-" + p.Name, Name: p.Name, Help: p.Help, Kind: "text", Value: cmp.Or(value, p.Default),
		Required: p.Required, Label: labelOf(p.Name),
	}
	switch {
	case len(p.Offers) > 0:
		f.Kind, f.Options = "choice", options(p.Offers...)
		f.Value = f.Options[0].Value
	case len(p.Choices) > 0:
		f.Kind, f.Options = "choice", choicesOf(p.Choices, "", true)
	case p.Type == param.Number:
		f.Kind = "number"
	case p.Type == param.Switch:
		f.Kind = "check"
	}
	return f
}
