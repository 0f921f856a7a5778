package command

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestADurationMayHaveDays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "2h30m": 150 * time.Minute,
		"7d": 168 * time.Hour, "1d12h": 36 * time.Hour,
	} {
		var got time.Duration
		flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
		bindDuration(flags, &got, "for", "")
		if err := flags.Parse([]string{"--for", text}); err != nil || got != want {
			t.Errorf("%s is %v, %v: want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "7", "d", "soon", "-1h", "1d-30h", "1dd", "0s"} {
		flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
		bindDuration(flags, new(time.Duration), "for", "")
		if err := flags.Parse([]string{"--for", text}); err == nil || !strings.Contains(err.Error(), "2h30m") {
			t.Errorf("%q: got %v, want an error that shows how", text, err)
		}
	}
}
