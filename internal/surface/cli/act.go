package cli

import (
	"os"
	"os/user"

	"github.com/spf13/pflag"
)

// Act has the flags of commands that make changes. The log keeps By and Reason.
type Act struct {
	By     string
	Reason string
	DryRun bool // show what would be done
	Yes    bool // do not ask
}

// BindOne adds --reason and --by.
func (a *Act) BindOne(flags *pflag.FlagSet) {
	flags.StringVar(&a.Reason, "reason", "", "reason, for the log")
	flags.StringVar(&a.By, "by", loggedIn(), "your name, for the log")
	flags.Lookup("by").DefValue = "user@host" // the same help text for every user
}

// loggedIn returns user@host, as the system knows them.
func loggedIn() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}
