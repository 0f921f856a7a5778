package cli

import (
	"os"
	"os/user"
	"strings"

	"github.com/spf13/pflag"
)

// Act is what every command that changes something is told: who acts, and why. Both are written down with what is done.
type Act struct {
	By     string
	Reason string
	DryRun bool // only say what would be done
	Yes    bool // ask nothing
}

// BindOne adds the flags of an act on one thing.
func (a *Act) BindOne(flags *pflag.FlagSet) {
	flags.StringVar(&a.Reason, "reason", "", "why, for the log")
	flags.StringVar(&a.By, "by", loggedIn(), "who, for the log")
	flags.Lookup("by").DefValue = "user@host" // help says the same to everybody
}

// NeedReason answers an error unless a reason was given.
func (a *Act) NeedReason() error {
	if strings.TrimSpace(a.Reason) == "" {
		return Usagef("--reason is needed: the log keeps why")
	}
	return nil
}

// loggedIn names the person by what the system knows: user@host.
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
