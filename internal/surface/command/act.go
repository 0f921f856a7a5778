package command

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/operator/acts"
	"github.com/tidemark-go/tidemark/internal/operator/param"
	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/internal/surface/table"
	"github.com/tidemark-go/tidemark/internal/verification"
)

const programName = "tidemark"

type extra struct {
	flags func(*pflag.FlagSet) // adds flags
	acts  func(*admin.Acts) (*admin.Acts, error)
	after afterAct // reports the outcome instead of [acts.Act.Told]

	failed func(c *actCommand, err error) error       // reports an error, and returns it with its exit code
	found  func(c *actCommand, plan *acts.Plan) error // refuses to end a dry run with success
}

// afterAct reports the outcome of an act on the thing that the first argument names.
type afterAct func(ctx context.Context, c *actCommand, pool *pgxpool.Pool, name string, done *admin.Outcome) error

// newAct returns the command of one act or of two. With two, the first acts on what the arguments name,
// and the second, without arguments, on what the flags choose.
func newAct(env *cli.Env, more extra, its []*acts.Act) *cobra.Command {
	c := &actCommand{env: env, extra: more, acts: its, given: params{}}
	confirms, previews, starts := false, false, false
	for _, act := range its {
		confirms, previews = confirms || act.Confirms || act.Counts, previews || act.Previews()
		starts = starts || act.Starts() || act.Kind == admin.ActReplay || act.Kind == admin.ActStartRebuild
	}
	command := &cobra.Command{
		Use: use(c.acts[0].Command, c.acts[0].Params), Short: c.acts[0].Short, Long: c.acts[0].Long,
		Args: c.choose, RunE: c.run, ValidArgsFunction: completeArgs(env, c.acts[0].Params),
	}
	for i, act := range c.acts {
		if i > 0 {
			verb, arguments, _ := strings.Cut(command.Use, " ")
			command.Use = verb + " [" + arguments + "]"
			command.Long = cmp.Or(command.Long, command.Short+".") + "\n\nWithout arguments flags choose. " + act.Long
		}
		command.Example = strings.Trim(command.Example+"\n"+examples(act.Examples), "\n")
		c.given.bind(env, command, act.Params)
	}
	all := command.Flags()
	c.by.BindOne(all)
	if confirms {
		all.BoolVar(&c.by.Yes, "yes", false, "do not ask for confirmation")
	}
	if previews {
		all.BoolVar(&c.by.DryRun, "dry-run", false, "show what would be done and change nothing")
	}
	if starts {
		all.BoolVar(&c.wait, "wait", false, "show progress until it ends, and exit as it ends")
	}
	all.BoolVar(&c.asJSON, "json", false, "write JSON")
	if c.flags != nil {
		c.flags(all)
	}
	return command
}

type actCommand struct {
	extra
	env          *cli.Env
	acts         []*acts.Act
	act          *acts.Act // chosen by the command line
	given        params
	by           cli.Act
	asJSON, wait bool
}

// choose finds the act with this number of arguments and refuses flags that it does not have.
func (c *actCommand) choose(command *cobra.Command, args []string) error {
	for _, act := range c.acts {
		n := len(placeholders(act.Params))
		several := n > 0 && act.Params[n-1].Type == param.Several
		if len(args) == n || several && len(args) > n {
			c.act = act
		}
	}
	if c.act == nil || slices.Contains(args, "") {
		return takes(c.acts[0].Params)(command, args)
	}
	names := placeholders(c.acts[0].Params)
	for name, flag := range c.given {
		if len(flag.texts) > 0 && !slices.ContainsFunc(c.act.Params, func(p param.Param) bool {
			return p.Name == name && p.Arg == ""
		}) {
			with := map[bool]string{true: "with", false: "without"}[len(args) == 0]
			return cli.Usagef("--%s goes %s %s", flag.Flag(), with, strings.Join(names, " and "))
		}
	}
	if c.by.DryRun && !c.act.Previews() {
		return cli.Usagef("--dry-run cannot be combined with %s", strings.Join(names, " and "))
	}
	return nil
}

func (c *actCommand) run(command *cobra.Command, args []string) error {
	in, err := c.act.Input(c.given.texts(c.act.Params, args))
	if err != nil {
		return usage(c.act.Params, err)
	}
	if c.act.Reason && !c.by.DryRun && strings.TrimSpace(c.by.Reason) == "" {
		return cli.Usagef("--reason is required: the log records it")
	}
	return c.env.WithPool(command.Context(), func(ctx context.Context, pool *pgxpool.Pool) error {
		does := admin.On(pool)
		if c.extra.acts != nil {
			if does, err = c.extra.acts(does); err != nil {
				return err
			}
		}
		done, err := c.do(ctx, command, does, in)
		if err != nil && c.failed != nil {
			err = c.failed(c, err)
		}
		switch {
		case err != nil || done == nil:
			return err
		case c.after != nil:
			return c.after(ctx, c, pool, args[0], done)
		case c.act.Starts() || c.act.Kind == admin.ActReplay:
			c.sayIfIdle(ctx, pool)
		}
		switch {
		case c.wait && c.act.Starts():
			return c.follow(ctx, pool, done)
		case c.wait:
			return c.followReplay(ctx, pool, args, done)
		}
		return c.tell(command, in, done)
	})
}

func by(act cli.Act) admin.Request { return admin.By(act.By, act.Reason) }

// asksBeyond is the number of things that are retried without asking.
const asksBeyond = 100

// do asks and does the act. For a dry run, and if there is nothing to do, it reports that and returns
// no outcome.
func (c *actCommand) do(
	ctx context.Context, command *cobra.Command, acts *admin.Acts, in any,
) (_ *admin.Outcome, err error) {
	request := by(c.by)
	if c.act.Typed(in) == "" && !c.act.Counts && !c.by.DryRun {
		return c.act.Do(ctx, acts, request, in)
	}
	plan, err := c.act.Preview(ctx, acts, request, in)
	if err != nil {
		return nil, err
	}
	nothing := c.act.Counts && plan.Count == 0
	if c.by.DryRun && c.found != nil {
		defer func() { err = errors.Join(err, c.found(c, plan)) }()
	}
	if c.by.DryRun || nothing {
		return nil, c.would(plan, nothing)
	}
	if err := c.confirm(ctx, command, plan, in); err != nil {
		return nil, err
	}
	request.Confirm = plan.Typed
	return c.act.Do(ctx, acts, request, plan.In)
}

// would says what the act would do.
func (c *actCommand) would(plan *acts.Plan, nothing bool) error {
	switch {
	case c.asJSON:
		return c.env.PrintJSON(plan.Found)
	case nothing:
		c.env.Note("There is nothing to do: this would %s.", plan.Words)
		return nil
	}
	c.env.Note("This would %s; nothing was changed.", plan.Words)
	return c.list(plan, c.env.PrintTable)
}

// confirm asks whether to do the act, unless it is harmless or was confirmed with a flag.
func (c *actCommand) confirm(ctx context.Context, command *cobra.Command, plan *acts.Plan, in any) error {
	confirmation := cli.Confirmation{What: plan.Words, Type: plan.Typed, Yes: c.by.Yes}
	if c.act.Counts && !c.act.Danger && c.act.Typed(in) == "" && plan.Count <= asksBeyond {
		confirmation.Yes = true
	}
	if confirmation.Type == "" && c.act.Counts {
		confirmation.Type = strconv.FormatInt(plan.Count, 10)
	}
	if !c.act.Previews() {
		confirmation.Look = command.Parent().CommandPath() + " list"
	}
	if !confirmation.Yes && c.env.InTerminal {
		side := *c.env
		side.Out = c.env.Err
		if err := c.list(plan, side.PrintTable); err != nil {
			return err
		}
	}
	return c.env.Confirm(ctx, confirmation)
}

func (c *actCommand) list(plan *acts.Plan, write func([]string, [][]table.Cell) error) error {
	if len(plan.First) == 0 {
		return nil
	}
	if int64(len(plan.First)) < plan.Count {
		c.env.Note("These are the first %d of %d:", len(plan.First), plan.Count)
	}
	return write([]string{"CAMPAIGN", "OF", "SEQ"}, slice.Of(plan.First, func(i admin.Item) []table.Cell {
		return table.Row(i.CampaignID, i.Subject, i.Seq)
	}))
}

func (c *actCommand) tell(command *cobra.Command, in any, done *admin.Outcome) error {
	if c.asJSON {
		return c.env.PrintJSON(done)
	}
	told := c.act.Told(in, done)
	c.env.Note("%s", table.Visible(told.Text))
	if len(told.Next) > 0 {
		c.env.Note("next: %s %s", command.Root().Name(), strings.Join(slice.Of(told.Next, table.Quote), " "))
	}
	return nil
}

type params map[string]*given

// given is a flag that keeps its texts for [param.Read] to parse.
type given struct {
	param.Param
	texts []string
}

func (g *given) String() string { return strings.Join(g.texts, ",") }

// Set appends a text.
func (g *given) Set(text string) error {
	g.texts = append(g.texts, text)
	return nil
}

func (g *given) Type() string { return string(g.Param.Type) }

func (p params) bind(env *cli.Env, command *cobra.Command, all []param.Param) {
	for _, one := range all {
		if one.Arg != "" || p[one.Name] != nil {
			continue
		}
		g := &given{Param: one}
		p[one.Name] = g
		flag := command.Flags().VarPF(g, one.Flag(), "", one.Help)
		flag.DefValue = cmp.Or(one.Usual, one.Default)
		if one.Type == param.Switch {
			flag.NoOptDefVal = "true"
		}
		if complete := completer(env, one); complete != nil {
			cli.CompleteFlag(command, one.Flag(), complete)
		}
	}
}

func (p params) texts(all []param.Param, args []string) param.Texts {
	byName, i := map[string][]string{}, 0
	for _, one := range all {
		switch {
		case one.Arg != "" && one.Type == param.Several:
			byName[one.Name] = args[i:]
		case one.Arg != "" && i < len(args):
			byName[one.Name] = args[i : i+1]
			i++
		}
	}
	return func(name string) ([]string, bool) {
		if values, ok := byName[name]; ok {
			return values, true
		}
		if g, ok := p[name]; ok {
			if len(g.texts) == 0 && g.Usual != "" {
				return []string{g.Usual}, true
			}
			return g.texts, len(g.texts) > 0
		}
		return nil, false
	}
}

// usage turns a [param.Error] into a usage error that names the flag or argument.
func usage(all []param.Param, err error) error {
	var wrong *param.Error
	if !errors.As(err, &wrong) {
		return err
	}
	i := slices.IndexFunc(all, func(p param.Param) bool { return p.Name == wrong.Param })
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

func completeArgs(env *cli.Env, all []param.Param) cobra.CompletionFunc {
	var places []cobra.CompletionFunc
	for _, p := range all {
		if p.Arg != "" {
			places = append(places, completer(env, p))
		}
	}
	return func(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		i := len(args)
		if i >= len(places) && len(places) > 0 && all[len(places)-1].Type == param.Several {
			i = len(places) - 1
		}
		if i >= len(places) || places[i] == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return places[i](command, args, prefix)
	}
}

// completer returns the completion of a parameter; nil: none.
func completer(env *cli.Env, p param.Param) cobra.CompletionFunc {
	if len(p.Choices) > 0 {
		return cli.Choices(p.Choices)
	}
	if p.Of == "projection" {
		return env.Complete(verification.ProjectionNames)
	}
	if source, ok := sources()[p.Of]; ok {
		return env.Complete(source.names)
	}
	return nil
}

var _ pflag.Value = (*given)(nil)
