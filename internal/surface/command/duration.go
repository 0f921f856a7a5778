package command

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/tidemark-go/tidemark/internal/operator"
)

// duration is a flag that [operator.ParseDuration] reads.
type duration time.Duration

// bindDuration adds a flag for a time above 0, such as 90s, 2h30m or 7d.
func bindDuration(flags *pflag.FlagSet, target *time.Duration, name, usage string) {
	flags.Var((*duration)(target), name, usage)
}

// Set parses text.
func (d *duration) Set(text string) error {
	parsed, err := operator.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%w: write it as 90s, 2h30m or 7d", err)
	}
	*d = duration(parsed)
	return nil
}

// String answers the value, empty for none.
func (d *duration) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

// Type names the value in help texts.
func (d *duration) Type() string { return "duration" }
