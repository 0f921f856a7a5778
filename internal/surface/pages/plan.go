package pages

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/acts"
	"github.com/tidemark-go/tidemark/internal/operator/param"
)

// planPage is an act and its effect with the parameters in the URL.
type planPage struct {
	*acts.Act
	Fields []filterField
	Chosen bool
	Posts  bool       // no URL may have its parameters
	Plan   *acts.Plan // nil: no parameters yet
	More   bool       // more matches than one operation takes
	asOf   string
}

// plan shows what an act would do. Its form does exactly that.
func (p *Pages) plan(ctx context.Context, r *http.Request) (view, error) {
	act, ok := acts.Named(r.PathValue("act"))
	if !ok || act.NoForm || !act.Previews() {
		return p.readNothing(ctx, r)
	}
	who := auth.From(ctx)
	if who.Role < act.Role {
		return view{}, admin.ErrForbidden
	}
	params := slices.DeleteFunc(slices.Clone(act.Params), func(of param.Param) bool { return of.Name == "as_of" })
	hidden := func(of param.Param) bool { return of.Hidden }
	if err := takes(r, param.Names(slices.DeleteFunc(slices.Clone(params), hidden))); err != nil {
		return view{}, err
	}
	page := &planPage{Act: act, Posts: slices.ContainsFunc(params, hidden)}
	var err error
	page.Fields, page.Chosen, err = fieldsOf(ctx, p.cfg.Pool, r, params)
	for i := range page.Fields {
		if params[i].Type == param.Switch {
			page.Fields[i].Options = options("=no", "true=yes")
		}
	}
	if err != nil || !page.Chosen {
		return view{Title: act.Button, Data: page}, err
	}
	in, err := act.Input(asked(page.Fields))
	if err != nil {
		return view{}, err
	}
	if page.Plan, err = act.Preview(ctx, p.cfg.Acts, admin.Request{Who: who}, in); err != nil {
		return view{}, err
	}
	var found struct {
		AsOf *time.Time `json:"as_of"`
		More bool       `json:"more"`
	}
	if err := json.Unmarshal(page.Plan.Found.Detail, &found); err != nil {
		return view{}, err
	}
	if page.More = found.More; found.AsOf != nil {
		page.asOf = found.AsOf.Format(time.RFC3339Nano)
	}
	for i := range page.Plan.First {
		page.Plan.First[i].Ord = int64(i + 1)
	}
	return view{Title: act.Button, Data: page}, nil
}

// Planned returns the form of a plan.
func (f frame) Planned(p *planPage) (*actForm, error) {
	pairs := []any{".open", true, ".typed", p.Plan.Typed}
	if p.asOf != "" {
		pairs = append(pairs, ".hidden as_of", p.asOf)
	}
	for _, of := range p.Fields {
		if of.Value == "" {
			pairs = append(pairs, ".without", of.Name)
		}
		for _, value := range of.values() {
			pairs = append(pairs, of.Name, value)
		}
	}
	return f.Form(p.Name, pairs...)
}
