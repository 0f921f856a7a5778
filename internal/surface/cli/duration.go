package cli

import (
	"errors"
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// duration is a flag that understands days besides what [time.ParseDuration] does.
type duration time.Duration

// BindDuration adds a flag for a time that is not negative, such as 90s, 2h30m or 7d.
func BindDuration(flags *pflag.FlagSet, target *time.Duration, name, usage string) {
	flags.Var((*duration)(target), name, usage)
}

// Set parses text.
func (d *duration) Set(text string) error {
	var days time.Duration
	rest := text
	if m := regexp.MustCompile(`^(\d{1,5})d(.*)$`).FindStringSubmatch(text); m != nil {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			return err
		}
		days, rest = time.Duration(n)*24*time.Hour, m[2]
	}
	var parsed time.Duration
	if rest != "" || days == 0 {
		var err error
		if parsed, err = time.ParseDuration(rest); err != nil {
			return errors.New("no duration: write it as 90s, 2h30m or 7d")
		}
	}
	if parsed += days; parsed < 0 {
		return errors.New("it lies in the past: write it as 90s, 2h30m or 7d")
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
