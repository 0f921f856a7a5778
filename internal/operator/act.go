package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator/param"
)

// Act is one thing that operators do. The command, the call of the API, the form of the pages and the
// reference of all three are made from it.
type Act struct {
	Kind    admin.Kind // the operators' log calls it so; the role follows from it
	Name    string     // operation id of the API, and name of the form
	Command string     // noun and verb, as in "failed requeue"
	Path    string     // below /api/v1, with the arguments in braces

	Short    string
	Long     string        // of the help; "": Short says it all
	Examples []string      // command lines, without the program's name
	ByHand   bool          // the command is written by hand
	NoForm   bool          // pages do not offer it
	Button   string        // of the form
	Hint     string        // above the form's fields; default: Short as a sentence
	Reason   bool          // it needs one
	Danger   bool          // it loses something, or changes what is read
	NeedsToo admin.Kind    // it needs the role of this kind besides its own; "": its own alone
	Params   []param.Param // arguments first

	form
}

// Told is what a person reads of an act that was done.
type Told struct {
	Text string   // one sentence
	Next []string // the words of the command that shows what becomes of it, after the program's name
}

// form is what an act does with its input.
type form struct {
	input   reflect.Type
	check   func(in any) error
	confirm func(in any) string
	agree   func(found any) string
	counted func(found any) (int64, []admin.Item)
	preview func(ctx context.Context, acts *admin.Acts, by admin.Request, in any) (any, error)
	would   func(in, found any) string
	fix     func(in, found any) any
	do      func(ctx context.Context, acts *admin.Acts, by admin.Request, in any) (*admin.Outcome, error)
	told    func(in any, done *admin.Outcome) Told
}

// does is what an act does with an input of type In, a pointer to a struct whose fields are its parameters: code for
// pointers is compiled once for all of them.
type does[In any] struct {
	// Check answers a [param.Error] for parameters that do not go together. Nil: all do.
	Check func(in In) error
	// Confirm answers what has to be typed; "": nothing. Nil: never anything.
	Confirm func(in In) string
	// Agree answers what has to be typed for what Preview found; Do checks it. Nil: never anything.
	Agree func(found any) string
	// Counted answers how many things Preview found, and the first ones. Nil: it does not count.
	Counted func(found any) (int64, []admin.Item)
	// Preview answers what the act would do. Nil: it cannot be asked.
	Preview func(ctx context.Context, acts *admin.Acts, by admin.Request, in In) (any, error)
	// Would says in words what the act would do, by what Preview found. Nil: Short says it.
	Would func(in In, found any) string
	// Fix answers the input that does what Preview found, and no more. Nil: the same.
	Fix  func(in In, found any) In
	Do   func(ctx context.Context, acts *admin.Acts, by admin.Request, in In) (*admin.Outcome, error)
	Told func(in In, done *admin.Outcome) Told
}

// act completes a description with what the act does.
func act[In any](a Act, d does[In]) *Act {
	f := form{
		input: reflect.TypeFor[In]().Elem(), agree: d.Agree, counted: d.Counted,
		do: func(ctx context.Context, acts *admin.Acts, by admin.Request, in any) (*admin.Outcome, error) {
			return d.Do(ctx, acts, by, in.(In))
		},
		told: func(in any, done *admin.Outcome) Told { return d.Told(in.(In), done) },
	}
	if d.Check != nil {
		f.check = func(in any) error { return d.Check(in.(In)) }
	}
	if d.Confirm != nil {
		f.confirm = func(in any) string { return d.Confirm(in.(In)) }
	}
	if d.Preview != nil {
		f.preview = func(ctx context.Context, acts *admin.Acts, by admin.Request, in any) (any, error) {
			return d.Preview(ctx, acts, by, in.(In))
		}
	}
	if d.Would != nil {
		f.would = func(in, found any) string { return d.Would(in.(In), found) }
	}
	if d.Fix != nil {
		f.fix = func(in, found any) any { return d.Fix(in.(In), found) }
	}
	return a.with(f)
}

// with is an act that does what f says.
func (a Act) with(f form) *Act {
	a.form, a.Params = f, param.Of(f.input)
	if a.would == nil {
		a.would = func(any, any) string { return strings.ToLower(a.Short[:1]) + a.Short[1:] }
	}
	if a.fix == nil {
		a.fix = func(in, _ any) any { return in }
	}
	if a.Hint == "" {
		a.Hint = a.Short + "."
	}
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

// Role is the lowest that may do it.
func (a *Act) Role() auth.Role { return max(a.Kind.Role(), a.NeedsToo.Role()) }

// Confirms says whether something may have to be typed.
func (a *Act) Confirms() bool { return a.confirm != nil || a.agree != nil }

// Previews says whether the act can tell what it would do.
func (a *Act) Previews() bool { return a.preview != nil }

// Counts says whether a [Plan] has the number of things that the act would change.
func (a *Act) Counts() bool { return a.counted != nil }

// Starts says whether workers do the act, as an operation.
func (a *Act) Starts() bool { return a.Kind == admin.ActStartOperation || a.Kind == admin.ActRollback }

// Input makes the act's input of texts, as [Read] does.
func (a *Act) Input(texts param.Texts) (any, error) {
	in, err := param.Read(a.input, a.Params, texts)
	if err == nil && a.check != nil {
		err = a.check(in)
	}
	return in, err
}

// Typed answers what has to be typed before the act is done with in; "": nothing.
func (a *Act) Typed(in any) string {
	if a.confirm == nil {
		return ""
	}
	return a.confirm(in)
}

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
	Found *admin.Outcome // as [Did] has it; nil: the act cannot tell
	Words string         // the same in words, which follow on "this would"
	In    any            // the input that does just that
	Typed string         // what has to be typed before; "": nothing
	Count int64          // of things, where the act counts them
	First []admin.Item   // of them
}

// Preview answers what the act would do with in. An act for which Previews is false answers the words alone.
func (a *Act) Preview(ctx context.Context, acts *admin.Acts, by admin.Request, in any) (*Plan, error) {
	if by.Who.Role < a.Role() {
		return nil, fmt.Errorf("%s is for role %s, and %q is %s: %w", a.Kind, a.Role(), by.Who.Name, by.Who.Role,
			admin.ErrForbidden)
	}
	if a.preview == nil {
		return &Plan{Words: a.would(in, nil), In: in, Typed: a.Typed(in)}, nil
	}
	detail, err := a.preview(ctx, acts, by, in)
	if err != nil {
		return nil, err
	}
	plan := &Plan{Words: a.would(in, detail), In: a.fix(in, detail), Typed: a.Typed(in)}
	if a.agree != nil {
		plan.Typed = a.agree(detail)
	}
	if a.counted != nil {
		plan.Count, plan.First = a.counted(detail)
	}
	plan.Found, err = Did("dry_run", detail)
	return plan, err
}

// Do does the act with in. Errors: [admin.ErrDeclined] unless by says what [Act.Typed] answers; [admin.ErrForbidden];
// those of the act.
func (a *Act) Do(ctx context.Context, acts *admin.Acts, by admin.Request, in any) (*admin.Outcome, error) {
	if by.Who.Role >= a.Role() {
		if a.Reason && strings.TrimSpace(by.Reason) == "" {
			return nil, fmt.Errorf("%w: reason is missing: the log keeps why", admin.ErrInvalid)
		}
		if want := a.Typed(in); want != "" && strings.TrimSpace(by.Confirm) != want {
			return nil, fmt.Errorf("%w: %q was typed: type %q", admin.ErrDeclined, by.Confirm, want)
		}
	}
	return a.do(ctx, acts, by, in)
}

// Told answers what a person reads once the act is done.
func (a *Act) Told(in any, done *admin.Outcome) Told { return a.told(in, done) }

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
