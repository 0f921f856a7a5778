// Package config reads the settings of commands from flags and the environment. Flags override the
// environment. All mistakes are reported together.
package config

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Set binds settings to flags and environment variables.
type Set struct {
	flags *pflag.FlagSet
	env   map[string]string // variable by flag
	from  map[string]string // by variable: "flag", "program" or "environment"; missing: the default
	given map[string]string // by variable: the program's own values
	errs  []error
}

// Override sets values by variable name. They override the environment, and flags override them.
// Unknown names and invalid values are mistakes that Finish reports.
func (s *Set) Override(values map[string]string) {
	s.given = values
	for name := range values {
		if !slices.Contains(slices.Collect(maps.Values(s.env)), name) {
			s.errs = append(s.errs, fmt.Errorf("%s is not a setting", name))
		}
	}
}

// NewSet returns a set that adds its settings to flags.
func NewSet(flags *pflag.FlagSet) *Set {
	return &Set{flags: flags, env: map[string]string{}, from: map[string]string{}}
}

// flagOf returns the flag of a variable: its name without the prefix, or a short name for a switch of
// the outbox.
func flagOf(env string) string {
	switch env {
	case envOutbox:
		return "outbox"
	case envShadow:
		return "outbox-shadow-worker"
	case envWorker:
		return "outbox-worker"
	}
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(env, prefix)), "_", "-")
}

// String adds a text setting. An empty environment variable counts as unset.
func (s *Set) String(target *string, env, standard, usage string) {
	same := func(text string) string { return text }
	add(s, target, env, standard, usage, same, func(text string) (string, error) { return text, nil })
}

// Choice adds a setting that must be one of choices; the first is the default.
func (s *Set) Choice(target *string, env, usage string, choices ...string) {
	same := func(text string) string { return text }
	choice(s, target, env, usage, choices, same, same)
}

// choice adds a setting of any type that is written as one of choices.
func choice[T any](
	s *Set, target *T, env, usage string, choices []string, format func(T) string, parse func(string) T,
) {
	list := strings.Join(choices, ", ")
	add(s, target, env, parse(choices[0]), usage+": "+list, format, func(text string) (value T, err error) {
		if !slices.Contains(choices, text) {
			return value, fmt.Errorf("must be one of %s", list)
		}
		return parse(text), nil
	})
}

// Int adds a setting for a whole number of at least least.
func (s *Set) Int(target *int, env string, standard, least int, usage string) {
	add(s, target, env, standard, usage, strconv.Itoa, func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil {
			return 0, errors.New("is not a whole number")
		}
		if n < least {
			return 0, fmt.Errorf("is too small, at least %d is needed", least)
		}
		return n, nil
	})
}

// Duration adds a setting for a duration of at least least, such as 300ms, 2s or 5m.
func (s *Set) Duration(target *time.Duration, env string, standard, least time.Duration, usage string) {
	add(s, target, env, standard, usage, time.Duration.String, func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, errors.New("is not a duration such as 300ms, 2s or 5m")
		}
		if d < least {
			return 0, fmt.Errorf("is too short, at least %s is needed", least)
		}
		return d, nil
	})
}

// Bool adds a setting for true or false. The flag alone means true.
func (s *Set) Bool(target *bool, env string, standard bool, usage string) {
	add(s, target, env, standard, usage, strconv.FormatBool, func(text string) (bool, error) {
		b, err := strconv.ParseBool(text)
		if err != nil {
			return false, errors.New("is neither true nor false")
		}
		return b, nil
	})
	s.flags.Lookup(flagOf(env)).NoOptDefVal = "true"
}

func add[T any](
	s *Set, target *T, env string, standard T, usage string, format func(T) string, parse func(string) (T, error),
) {
	*target = standard
	flag := flagOf(env)
	s.env[flag] = env
	s.flags.Var(&value[T]{set: s, target: target, name: "--" + flag, format: format, parse: parse}, flag, usage+" ["+
		env+"]")
}

// value is a flag that keeps its mistakes for Finish.
type value[T any] struct {
	set    *Set
	target *T
	name   string
	format func(T) string
	parse  func(string) (T, error)
}

func (v *value[T]) String() string {
	if v.target == nil {
		return ""
	}
	return v.format(*v.target)
}

// Set sets the setting, without white space around it: files often end with a newline. It keeps a
// mistake and returns nil.
func (v *value[T]) Set(text string) error {
	parsed, err := v.parse(strings.TrimSpace(text))
	if err != nil {
		v.set.errs = append(v.set.errs, fmt.Errorf("%s=%q %w", v.name, text, err))
		return nil
	}
	*v.target = parsed
	return nil
}

// Type returns the value's name in help texts.
func (v *value[T]) Type() string {
	switch any(v.target).(type) {
	case *time.Duration:
		return "duration"
	case *int:
		return "number"
	case *bool:
		return ""
	}
	return "text"
}

// Finish reads the environment for settings without a flag and returns all mistakes.
func (s *Set) Finish() error {
	s.flags.VisitAll(func(f *pflag.Flag) {
		env, ok := s.env[f.Name]
		text, from := os.Getenv(env), "environment"
		if given := s.given[env]; given != "" {
			text, from = given, "program"
		}
		if ok && f.Changed {
			s.from[env] = "flag"
		}
		if !ok || f.Changed || strings.TrimSpace(text) == "" {
			return
		}
		s.from[env] = from
		before := len(s.errs)
		_ = f.Value.Set(text) // keeps a mistake in errs
		if len(s.errs) > before {
			s.errs[before] = errors.New(strings.Replace(s.errs[before].Error(), "--"+f.Name, env, 1))
		}
	})
	return errors.Join(s.errs...)
}

// Setting is a setting for display, without secrets.
type Setting struct{ Name, Value, Usage string }

// List returns all settings, named by variable, in the order in which they were added. It hides
// secrets: of a URL it shows no user, password or parameters, and a path only for a database. Call it
// after Finish.
func (s *Set) List() (list []Setting) {
	s.flags.VisitAll(func(f *pflag.Flag) {
		name, ok := s.env[f.Name]
		if !ok {
			return
		}
		text := f.Value.String()
		switch {
		case text == "":
		case strings.HasSuffix(name, "_URL"):
			text = place(text)
		case strings.HasSuffix(name, "_SECRET"):
			text = "(set, and not shown)"
		}
		list = append(list, Setting{Name: name, Value: text, Usage: strings.TrimSuffix(f.Usage, " ["+name+"]")})
	})
	return list
}

// place returns the parts of a URL that are safe to show.
func place(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" { // also a connection string such as "host=… password=…"
		return "(set, and not shown)"
	}
	shown := &url.URL{Scheme: u.Scheme, Host: u.Host}
	if strings.HasPrefix(u.Scheme, "postgres") { // other paths may be secret, as with a webhook
		shown.Path = u.Path
	}
	return shown.String()
}
