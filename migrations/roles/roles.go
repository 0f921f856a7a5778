// Package roles has the SQL that makes a database role for each kind of program, and grants it what
// the program needs. It owns no table: the roles belong to the server.
package roles

import (
	_ "embed" // for the scripts
	"errors"
	"fmt"
	"strings"
)

//go:embed roles.sql
var grants string

//go:embed advisory-locks.sql
var locks string

// maxPrefix leaves room for the longest ending, _application, in a name of 63 bytes.
const maxPrefix = 63 - len("_application")

// Options are the parameters of the script.
type Options struct {
	Prefix        string // of the roles' names; default tidemark
	Schema        string // of the read models; default tidemark_views
	AdvisoryLocks bool   // also keep other roles from taking advisory locks
}

// Script returns the SQL. It can run any number of times, in one session of a superuser.
func Script(o Options) (string, error) {
	if len(o.Prefix) > maxPrefix {
		return "", fmt.Errorf("the prefix %q has %d bytes: at most %d leave room for the rest of a role's name", o.Prefix,
			len(o.Prefix), maxPrefix)
	}
	if strings.Contains(o.Prefix+o.Schema, "\x00") {
		return "", errors.New("the prefix or the schema contains a zero byte: Postgres has no such names")
	}
	var before, after string
	for _, s := range []struct{ name, value string }{
		{"tidemark.role_prefix", o.Prefix}, {"tidemark.read_models", o.Schema},
	} {
		if s.value != "" {
			before += fmt.Sprintf("SET %s = '%s';\n", s.name, strings.ReplaceAll(s.value, "'", "''"))
			after += fmt.Sprintf("RESET %s;\n", s.name)
		}
	}
	script := grants
	if o.AdvisoryLocks {
		script += "\n" + locks
	}
	return before + script + after, nil
}
