package cli

import (
	"cmp"
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// Context is the context of a program: SIGINT and SIGTERM cancel it, and a second signal ends the process at once.
// Call stop when the program ends.
func Context() (ctx context.Context, stop context.CancelFunc) {
	ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

const module = "github.com/tidemark-go/tidemark"

// Version is what programs print for --version: the version of this module that is linked, the commit, and the version
// of Go.
func Version() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	version := build.Main.Version
	for _, dependency := range build.Deps {
		if dependency.Path == module {
			version = dependency.Version
		}
	}
	text := cmp.Or(version, "(devel)")
	for _, setting := range build.Settings {
		if setting.Key == "vcs.revision" && build.Main.Path == module {
			text += ", commit " + setting.Value
		}
	}
	return text + ", " + build.GoVersion
}
