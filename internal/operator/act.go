package operator

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

// Act is one thing that operators do. The command, the call of the API, the form of the pages and the
// reference of all three are made from it.
type Act struct {
	Kind    admin.Kind // the operators' log calls it so
	Name    string     // operation id of the API, and name of the form
	Command string     // noun and verb, as in "failed requeue"
	Path    string     // below /api/v1, with the arguments in braces

	Short    string
	Long     string    // of the help; "": Short says it all
	Examples []string  // command lines, without the program's name
	ByHand   bool      // the command is written by hand
	NoForm   bool      // pages do not offer it
	Button   string    // of the form
	Hint     string    // above the form's fields; default: Short as a sentence
	Role     auth.Role // the lowest that may do it; default: Operator, for what loses nothing and can be undone
	Reason   bool      // it needs one
	Danger   bool      // it loses something, or changes what is read
	Confirms bool      // something may have to be typed
	Counts   bool      // a [Plan] has the number of things that the act would change
	Logs     bool      // it writes to the operators' log itself

	Params   []param.Param // arguments first
	Previews bool          // it can tell what it would do

	input reflect.Type
	does  func(in any) does
}

// Told is what a person reads of an act that was done.
type Told struct {
	Text string   // one sentence
	Next []string // the words of the command that shows what becomes of it, after the program's name
}

// does is what an act does with one input.
type does struct {
	Wrong error  // a [param.Error] for parameters that do not go together
	Typed string // what has to be typed; "": nothing, or what Preview says, and Do checks
	Would string // what it would do, as words that follow on "this would"; default: Short

	// Preview answers what the act would do. What it leaves out of a [Plan] is as without a preview. Nil: it cannot be
	// asked.
	Preview func(ctx context.Context, acts *admin.Acts, by admin.Request) (*Plan, error)

	// Do does the act in a transaction, and answers what there is to tell besides what was asked for.
	Do func(ctx context.Context, acts *admin.Acts, tx pgx.Tx, by admin.Request) (detail any, err error)
	// Alone is Do for an act that begins its transactions itself.
	Alone func(ctx context.Context, acts *admin.Acts, db *admin.Recorder) (detail any, err error)
	// Reveal answers the detail for the one who asked alone, once the act is done. Nil: that of Do.
	Reveal func() any
	Told   func(done *admin.Outcome) Told
}

// told tells the same of every outcome.
func told(text string, next ...string) func(*admin.Outcome) Told {
	return func(*admin.Outcome) Told { return Told{text, next} }
}

// act completes a description with what the act does with an input: In is a struct whose fields are its parameters.
func act[In any](a Act, of func(in *In) does) *Act {
	a.input = reflect.TypeFor[In]()
	a.does = func(in any) does { return of(in.(*In)) }
	a.Params = param.Of(a.input)
	a.Previews = of(new(In)).Preview != nil
	a.Role = max(a.Role, auth.Operator)
	a.Hint = cmp.Or(a.Hint, a.Short+".")
	return &a
}

// Acts lists all acts, in the order of their commands.
var Acts = sync.OnceValue(func() []*Act { //nolint:gochecknoglobals // built once, never written again
	all := slices.Concat(failedActs(), pauseActs(), campaignActs(), projectionActs(), rebuildActs(), publisherActs(),
		parkedActs(), manyActs(), workerActs(), groupActs(), tokenActs(), operationActs())
	slices.SortStableFunc(all, func(a, b *Act) int { return strings.Compare(a.Command, b.Command) })
	return all
})

// ActNamed finds an act.
func ActNamed(name string) (*Act, bool) {
	i := slices.IndexFunc(Acts(), func(a *Act) bool { return a.Name == name })
	if i < 0 {
		return nil, false
	}
	return Acts()[i], true
}

// Starts says whether workers do the act, as an operation.
func (a *Act) Starts() bool { return a.Kind == admin.ActStartOperation || a.Kind == admin.ActRollback }

// Input makes the act's input of texts, as [param.Read] does.
func (a *Act) Input(texts param.Texts) (any, error) {
	in, err := param.Read(a.input, a.Params, texts)
	if err == nil {
		err = a.does(in).Wrong
	}
	return in, err
}

// Typed answers what has to be typed before the act is done with in; "": nothing.
func (a *Act) Typed(in any) string { return a.does(in).Typed }

// TypedFor is Typed where only some of the input is known yet.
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
	Detail any            // what it has found
	Found  *admin.Outcome // the same as [Did] has it; nil: the act cannot tell
	Words  string         // the same in words, which follow on "this would"
	In     any            // the input that does just that, and no more
	Typed  string         // what has to be typed before; "": nothing
	Count  int64          // of things, where the act counts them
	First  []admin.Item   // of them
}

// Preview answers what the act would do with in. An act for which Previews is false answers the words alone.
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
	if plan.In == nil {
		plan.In = in
	}
	plan.Typed = cmp.Or(plan.Typed, does.Typed)
	plan.Words = cmp.Or(plan.Words, does.Would, strings.ToLower(a.Short[:1])+a.Short[1:])
	return plan, nil
}

// Do does the act with in. Errors: [admin.ErrDeclined] unless by says what [Act.Typed] answers; [admin.ErrForbidden];
// those of the act.
func (a *Act) Do(ctx context.Context, acts *admin.Acts, by admin.Request, in any) (*admin.Outcome, error) {
	does := a.does(in)
	call := admin.Act{
		Kind: a.Kind, Name: a.Name, Role: a.Role, Asked: param.Given(in, a.Params), Reason: a.Reason, Confirm: does.Typed,
		Logs: a.Logs,
	}
	if does.Alone != nil {
		return acts.DoAlone(ctx, by, call, func(ctx context.Context, db *admin.Recorder) (any, error) {
			return does.Alone(ctx, acts, db)
		})
	}
	done, err := acts.Do(ctx, by, call, func(ctx context.Context, tx pgx.Tx) (any, error) {
		return does.Do(ctx, acts, tx, by)
	})
	if err == nil && does.Reveal != nil && !done.Repeated {
		done.Detail, err = json.Marshal(does.Reveal())
	}
	return done, err
}

// Told answers what a person reads once the act is done.
func (a *Act) Told(in any, done *admin.Outcome) Told { return a.does(in).Told(done) }

// Did answers the document of what became of an act.
func Did(kind admin.Kind, detail any) (*admin.Outcome, error) {
	raw, err := json.Marshal(detail)
	return &admin.Outcome{Version: 1, Act: string(kind), Detail: raw}, err
}

// detail reads what became of an act.
func detail[T any](done *admin.Outcome) (t T) {
	if done != nil {
		_ = json.Unmarshal(done.Detail, &t)
	}
	return t
}
