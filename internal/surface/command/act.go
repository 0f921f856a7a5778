package command

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// programName begins the examples of commands.
const programName = "tidemark"

// newAct makes the command of the act in [operator.Acts] that has the name.
func newAct(env *cli.Env, name string) *cobra.Command { return newActAnd(env, name, nil, nil) }

// newActAnd makes the command of an act that does more: flags adds to its flags, and after tells the user in place of
// [operator.Act.Told].
func newActAnd(env *cli.Env, name string, flags func(*pflag.FlagSet), after afterAct) *cobra.Command {
	act, ok := operator.ActNamed(name)
	if !ok {
		panic("no act " + name)
	}
	c := &actCommand{env: env, act: act, given: params{}, after: after}
	command := &cobra.Command{
		Use: use(act.Command, act.Params), Short: act.Short, Long: act.Long, Example: examples(act.Examples),
		Args: takes(act.Params), RunE: c.run, ValidArgsFunction: completeArgs(env, act.Params),
	}
	c.given.bind(env, command, act.Params)
	all := command.Flags()
	c.by.BindOne(all)
	if act.Confirms() {
		all.BoolVar(&c.by.Yes, "yes", false, "do not ask for the name")
	}
	if act.Previews() {
		all.BoolVar(&c.by.DryRun, "dry-run", false, "show what would be done, and do nothing")
	}
	all.BoolVar(&c.asJSON, "json", false, "write JSON")
	if flags != nil {
		flags(all)
	}
	return command
}

// afterAct tells what became of an act that was done on the thing that the first argument names.
type afterAct func(ctx context.Context, c *actCommand, pool *pgxpool.Pool, name string, done *admin.Outcome) error

// actCommand is the command of an act.
type actCommand struct {
	env    *cli.Env
	act    *operator.Act
	given  params
	by     cli.Act
	asJSON bool
	after  afterAct // nil: what the act says is told
}

func (c *actCommand) run(command *cobra.Command, args []string) error {
	in, err := c.act.Input(c.given.texts(c.act.Params, args))
	if err != nil {
		return usage(c.act.Params, err)
	}
	if c.act.Reason {
		if err := c.by.NeedReason(); err != nil {
			return err
		}
	}
	return c.env.WithPool(command.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
		done, err := c.do(ctx, command, admin.On(pool), in)
		if err != nil || done == nil {
			return err
		}
		if c.after != nil {
			return c.after(ctx, c, pool, args[0], done)
		}
		return c.tell(command, in, done)
	})
}

// do asks and does the act. A dry run, which it tells of, has no outcome.
func (c *actCommand) do(
	ctx context.Context, command *cobra.Command, acts *admin.Acts, in any,
) (*admin.Outcome, error) {
	request, want := by(c.by), c.act.Typed(in)
	if want != "" || c.by.DryRun {
		found, words, fixed, err := c.act.Preview(ctx, acts, request, in)
		switch {
		case err != nil:
			return nil, err
		case c.by.DryRun && c.asJSON:
			return nil, c.env.PrintJSON(found)
		case c.by.DryRun:
			c.env.Note("This would %s; nothing was changed.", words)
			return nil, nil
		}
		confirmation := cli.Confirmation{What: words, Type: want, Yes: c.by.Yes}
		if !c.act.Previews() {
			confirmation.Look = command.Parent().CommandPath() + " list"
		}
		if err := c.env.Confirm(ctx, confirmation); err != nil {
			return nil, err
		}
		in = fixed
	}
	request.Confirm = want
	return c.act.Do(ctx, acts, request, in)
}

// tell says what became of the act.
func (c *actCommand) tell(command *cobra.Command, in any, done *admin.Outcome) error {
	if c.asJSON {
		return c.env.PrintJSON(done)
	}
	told := c.act.Told(in, done)
	c.env.Note("%s", cli.Visible(told.Text))
	if len(told.Next) > 0 {
		next := []string{command.Root().Name()}
		for _, word := range told.Next {
			next = append(next, cli.Quote(word))
		}
		c.env.Note("next: %s", strings.Join(next, " "))
	}
	return nil
}

// params is what the flags of parameters were given.
type params map[string]*given

// given is a flag that keeps what was given as text; the parameter's type says later what it means.
type given struct {
	operator.Param
	texts []string
}

// String answers what was given.
func (g *given) String() string { return strings.Join(g.texts, ",") }

// Set keeps one more text.
func (g *given) Set(text string) error {
	g.texts = append(g.texts, text)
	return nil
}

// Type names the values in help texts.
func (g *given) Type() string { return string(g.Param.Type) }

// bind adds a flag for each parameter that is no argument.
func (p params) bind(env *cli.Env, command *cobra.Command, all []operator.Param) {
	for _, param := range all {
		if param.Arg != "" {
			continue
		}
		g := &given{Param: param}
		p[param.Name] = g
		flag := command.Flags().VarPF(g, param.Flag(), "", param.Help)
		flag.DefValue = cmp.Or(param.Usual, param.Default)
		if param.Type == operator.Switch {
			flag.NoOptDefVal = "true"
		}
		if complete := completer(env, param); complete != nil {
			cli.CompleteFlag(command, param.Flag(), complete)
		}
	}
}

// texts answers what was given, by flag or as an argument.
func (p params) texts(all []operator.Param, args []string) operator.Texts {
	byName, i := map[string][]string{}, 0
	for _, param := range all {
		if param.Arg != "" && i < len(args) {
			byName[param.Name] = args[i : i+1]
			i++
		}
	}
	return func(name string) ([]string, bool) {
		if g, ok := p[name]; ok {
			if len(g.texts) == 0 && g.Usual != "" {
				return []string{g.Usual}, true
			}
			return g.texts, len(g.texts) > 0
		}
		values, ok := byName[name]
		return values, ok
	}
}

// usage says of a parameter that is wrong which flag or argument it is.
func usage(all []operator.Param, err error) error {
	var wrong *operator.ParamError
	if !errors.As(err, &wrong) {
		return err
	}
	i := slices.IndexFunc(all, func(p operator.Param) bool { return p.Name == wrong.Param })
	name := wrong.Param
	if i >= 0 && all[i].Arg != "" {
		name = all[i].Arg
	} else if i >= 0 {
		name = "--" + all[i].Flag()
	}
	if wrong.Value == "" {
		return cli.Usagef("%s: %s: %s", name, wrong.Detail, wrong.Remedy)
	}
	return cli.Usagef("%s %q: %s: %s", name, wrong.Value, wrong.Detail, wrong.Remedy)
}

// takes wants one argument for each parameter that is one.
func takes(all []operator.Param) cobra.PositionalArgs {
	var names []string
	for _, p := range all {
		if p.Arg != "" {
			names = append(names, p.Arg)
		}
	}
	return func(command *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names) || slices.Contains(args, ""):
			return cli.Usagef("%s what? Name %s", command.Name(), strings.Join(names, " and "))
		case len(args) > len(names):
			return cli.Usagef("unexpected %q", args[len(names)])
		}
		return nil
	}
}

// completeArgs completes arguments by what they name.
func completeArgs(env *cli.Env, all []operator.Param) cobra.CompletionFunc {
	var places []cobra.CompletionFunc
	for _, p := range all {
		if p.Arg != "" {
			places = append(places, completer(env, p))
		}
	}
	return func(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(places) || places[len(args)] == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return places[len(args)](command, args, prefix)
	}
}

// completer answers how a parameter is completed; nil: it is not.
func completer(env *cli.Env, p operator.Param) cobra.CompletionFunc {
	if len(p.Choices) > 0 {
		return cli.Choices(p.Choices)
	}
	names := map[string]cli.Names{
		"projection": projectionNames, "campaign": campaignIDs, "failed": deferredCampaigns, "group": groupNames,
		"topic": topicNames, "publisher": publisherNames, "parked": parkedCampaigns, "worker": ownerNames,
		"token": tokenNames, "operation": operationIDs, "fingerprint": fingerprints,
	}[p.Of]
	if names == nil {
		return nil
	}
	return env.Complete(names)
}

var _ pflag.Value = (*given)(nil)
