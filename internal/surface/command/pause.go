package command

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-go/tidemark/internal/store/pause"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// oneName wants exactly one argument.
func oneName(noun string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return cli.Usagef("%s which %s? Name one", cmd.Name(), noun)
		}
		return nil
	}
}

// pauseCell says how long something is paused and why; empty: it is not.
func pauseCell(pauses []pause.Pause, is func(pause.Target) bool) cli.Cell {
	for _, p := range pauses {
		if !is(p.Target) {
			continue
		}
		return cli.Cell{Text: pauseText(p), Tone: cli.Warning}
	}
	return cli.Text("")
}

// pauseText says who has paused something, until when and why.
func pauseText(p pause.Pause) string {
	text := "by " + p.By
	if !p.ExpiresAt.IsZero() {
		text += " until " + cli.Stamp(&p.ExpiresAt)
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}
