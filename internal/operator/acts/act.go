// Package acts lists what operators do. An [Act] is one value: name, role, parameters, preview, and what
// it does.
package acts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/param"
)

// Act is one thing that operators do. The command, the API call, the page's form and the reference of
// all three are generated from it.
type Act struct {
	Kind    admin.Kind // name in the operators' log
	Name    string     // operation id of the API and name of the form
	Command string     // noun and verb, as in "failed requeue"
	Path    string     // below /api/v1, with arguments in braces

	Short    string
	Long     string    // of the help; default: Short
	Examples []string  // command lines without the program's name
	ByHand   bool      // the command is written by hand
	NoForm   bool      // pages have no form for it
	File     string    // name of a file with the detail, which pages hand over once; "": none
	Button   string    // of the form
	Hint     string    // above the form's fields; default: Short as a sentence
	Role     auth.Role // lowest that may do it; default Operator, for acts that lose nothing and can be undone
	Reason   bool      // a reason is required
	Danger   bool      // loses data or changes what readers see
	Confirms bool      // may ask to type a confirmation
	Counts   bool      // its [Plan] has the number of things it would change
	Logs     bool      // writes the operators' log itself

	Params []param.Param // arguments first

	input reflect.Type
	does  func(in any) does
}

// Told is the message about an act that was done.
type Told struct {
	Text string   // one sentence
	Next []string // words, after the program's name, of the command that shows the result
}

type does struct {
	Wrong error  // a [param.Error] for parameters that conflict
	Typed string // text to type; "": nothing, or what Preview returns and Do checks
	Would string // what follows "this would"; default: Short

	// Preview returns what the act would do. Fields of [Plan] that it leaves empty get their defaults. Nil: no preview.
	Preview func(ctx context.Context, acts *admin.Acts, by admin.Request) (*Plan, error)

	// Do does the act in a transaction and returns details beyond the request.
	Do func(ctx context.Context, acts *admin.Acts, tx pgx.Tx, by admin.Request) (detail any, err error)
	// Alone replaces Do for an act that begins its own transactions.
	Alone func(ctx context.Context, db *admin.Recorder) (detail any, err error)
	// Reveal returns a detail that only the caller sees, once the act is done. Nil: the detail of Do.
	Reveal func() any
	Told   func(done *admin.Outcome) Told
}

func told(text string, next ...string) func(*admin.Outcome) Told {
	return func(*admin.Outcome) Told { return Told{text, next} }
}

// act builds an Act from its description and implementation. The fields of In are the parameters.
func act[In any](a Act, of func(in *In) does) *Act {
	a.input = reflect.TypeFor[In]()
	a.does = func(in any) does { return of(in.(*In)) }
	a.Params = param.Of(a.input)
	a.Role = max(a.Role, auth.Operator)
	a.Hint = cmp.Or(a.Hint, a.Short+".")
	return &a
}

// define is [act] for an implementation in place: fill sets the fields of d.
func define[In any](a Act, fill func(in *In, d *does)) *Act {
	return act(a, func(in *In) (d does) {
		fill(in, &d)
		return d
	})
}

// All returns all acts, ordered by command.
var All = sync.OnceValue(func() []*Act { //nolint:gochecknoglobals // built once, never written again
	all := slices.Concat(failedActs(), pauseActs(), campaignActs(), projectionActs(), rebuildActs(), publisherActs(),
		parkedActs(), manyActs(), workerActs(), groupActs(), tokenActs(), operationActs(), scheduledActs(), eraseActs(),
		keyActs(), archiveActs(), copyActs())
	slices.SortStableFunc(all, func(a, b *Act) int { return strings.Compare(a.Command, b.Command) })
	return all
})

// Named returns the act with the name.
func Named(name string) (*Act, bool) {
	i := slices.IndexFunc(All(), func(a *Act) bool { return a.Name == name })
	if i < 0 {
		return nil, false
	}
	return All()[i], true
}

// Previews reports whether the act has a dry run.
func (a *Act) Previews() bool { return a.does(reflect.New(a.input).Interface()).Preview != nil }

// Starts reports whether workers do the act, as an operation.
func (a *Act) Starts() bool { return a.Kind == admin.ActStartOperation || a.Kind == admin.ActRollback }

// Input parses the act's input, as [param.Read] does.
func (a *Act) Input(texts param.Texts) (any, error) {
	in, err := param.Read(a.input, a.Params, texts)
	if err == nil {
		err = a.does(in).Wrong
	}
	return in, err
}

// Typed returns the text to type before the act is done; "": nothing.
func (a *Act) Typed(in any) string { return a.does(in).Typed }

// TypedFor is Typed for an incomplete input.
func (a *Act) TypedFor(texts param.Texts) string {
	known := slices.Clone(a.Params)
	for i := range known {
		known[i].Required = false
	}
	in, err := param.Read(a.input, known, texts)
	if err != nil {
		return ""
	}
	return a.Typed(in)
}

// Plan is what an act would do.
type Plan struct {
	Detail any            // what the preview found
	Found  *admin.Outcome // Detail as a document; nil: no preview
	Words  string         // Detail in words that follow "this would"
	In     any            // input that does exactly this
	Typed  string         // text to type; "": nothing
	Count  int64          // things, if the act counts them
	First  []admin.Item   // the first of them
}

// Preview returns what the act would do with in. It changes nothing. Without Previews only Words is set.
func (a *Act) Preview(ctx context.Context, acts *admin.Acts, by admin.Request, in any) (_ *Plan, err error) {
	if by.Who.Role < a.Role {
		return nil, fmt.Errorf("%s is for role %s, and %q is %s: %w", a.Kind, a.Role, by.Who.Name, by.Who.Role,
			admin.ErrForbidden)
	}
	does, plan := a.does(in), &Plan{}
	if does.Preview != nil {
		if plan, err = does.Preview(ctx, acts, by); err != nil {
			return nil, err
		}
		if plan.Found, err = Did("dry_run", plan.Detail); err != nil {
			return nil, err
		}
	}
	plan.In = cmp.Or(plan.In, in)
	plan.Typed = cmp.Or(plan.Typed, does.Typed)
	plan.Words = cmp.Or(plan.Words, does.Would, strings.ToLower(a.Short[:1])+a.Short[1:])
	return plan, nil
}

// Do does the act with in. Errors: [admin.ErrDeclined] unless by.Confirm is what [Act.Typed] returns,
// [admin.ErrForbidden], and those of the act.
func (a *Act) Do(ctx context.Context, acts *admin.Acts, by admin.Request, in any) (*admin.Outcome, error) {
	does := a.does(in)
	call := admin.Act{
		Kind: a.Kind, Name: a.Name, Role: a.Role, Asked: param.Given(in, a.Params),
		Hidden: param.Hidden(in, a.Params), Reason: a.Reason, Confirm: does.Typed,
		Logs: a.Logs,
	}
	if does.Alone != nil {
		return acts.DoAlone(ctx, by, call, does.Alone)
	}
	done, err := acts.Do(ctx, by, call, func(ctx context.Context, tx pgx.Tx) (any, error) {
		return does.Do(ctx, acts, tx, by)
	})
	if err == nil && does.Reveal != nil && !done.Repeated {
		done.Detail, err = json.Marshal(does.Reveal())
	}
	return done, err
}

// Told returns the message about the act that was done.
func (a *Act) Told(in any, done *admin.Outcome) Told { return a.does(in).Told(done) }

// Did returns the document of an outcome.
func Did(kind admin.Kind, detail any) (*admin.Outcome, error) {
	raw, err := json.Marshal(detail)
	return &admin.Outcome{Version: 1, Act: string(kind), Detail: raw}, err
}

func detail[T any](done *admin.Outcome) (t T) {
	if done != nil {
		_ = json.Unmarshal(done.Detail, &t)
	}
	return t
}
