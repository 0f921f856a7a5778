package command

import (
	"flag"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// aliasMode maps a command in flag form to its noun form.
type aliasMode struct {
	flag  string
	verb  []string
	value map[string]string // flag form's name to noun form's name
	args  []string          // flags that become arguments, in order
	limit string            // default of --limit
}

func aliasModes() []aliasMode {
	return []aliasMode{
		{
			flag: "outbox-report", verb: []string{"outbox", "report"},
			value: map[string]string{"outbox-status": "status", "outbox-limit": "limit"},
		},
		{
			flag: "outbox-requeue", verb: []string{"outbox", "requeue"},
			args: []string{"outbox-requeue-campaign-id", "outbox-requeue-seq"},
		},
		{
			flag: "outbox-requeue-dead", verb: []string{"failed", "requeue", "--status=dead"},
			value: map[string]string{"outbox-requeue-dead-limit": "limit"}, limit: "100",
		},
	}
}

// fromFlagForm converts a command line in flag form, such as -outbox-report -outbox-status failed -json,
// to noun form. It returns other command lines unchanged. The syntax is that of Go's flag package: one
// dash or two, a value after a space or an equals sign.
func fromFlagForm(args []string) ([]string, error) {
	if len(args) == 0 || !strings.HasPrefix(args[0], "-") || !mentionsAlias(args) {
		return args, nil
	}
	flags := flag.NewFlagSet("maintenance", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	modes, chosen := aliasModes(), map[string]*bool{}
	for _, mode := range modes {
		chosen[mode.flag] = flags.Bool(mode.flag, false, "")
		for _, name := range slices.Concat(slices.Collect(maps.Keys(mode.value)), mode.args) {
			flags.String(name, "", "")
		}
	}
	for _, name := range []string{"json", "dry-run", "yes", "dev"} {
		flags.Bool(name, false, "")
	}
	for _, name := range []string{"by", "reason"} {
		flags.String(name, "", "")
	}
	if err := flags.Parse(args); err != nil {
		return nil, &cli.UsageError{Err: err}
	}
	if flags.NArg() > 0 {
		return nil, cli.Usagef("unexpected %q", flags.Arg(0))
	}
	var mode *aliasMode
	for i := range modes {
		if !*chosen[modes[i].flag] {
			continue
		}
		if mode != nil {
			return nil, cli.Usagef("-%s and -%s: one at a time", mode.flag, modes[i].flag)
		}
		mode = &modes[i]
	}
	if mode == nil {
		return nil, cli.Usagef("do what? There are -outbox-report, -outbox-requeue, -outbox-requeue-dead")
	}
	return mode.nounForm(flags)
}

// nounForm returns the given flags under their names in noun form.
func (m *aliasMode) nounForm(flags *flag.FlagSet) (args []string, err error) {
	args = append(args, m.verb...)
	for _, name := range m.args {
		if value := flags.Lookup(name).Value.String(); value != "" {
			args = append(args, value)
		}
	}
	limit := m.limit
	flags.Visit(func(f *flag.Flag) {
		name := f.Name
		if slices.Contains(m.args, name) {
			return
		}
		if strings.HasPrefix(name, "outbox-") {
			if name = m.value[f.Name]; name == "" && f.Name != m.flag && err == nil {
				err = cli.Usagef("-%s does not belong to -%s", f.Name, m.flag)
			}
		}
		if name == "limit" {
			limit = ""
		}
		if name != "" {
			args = append(args, "--"+name+"="+f.Value.String())
		}
	})
	if limit != "" {
		args = append(args, "--limit="+limit)
	}
	return args, err
}

func mentionsAlias(args []string) bool {
	return slices.ContainsFunc(args, regexp.MustCompile(`^--?outbox-`).MatchString)
}
