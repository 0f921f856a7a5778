package cli

import (
	"cmp"
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// Context returns a context that SIGINT and SIGTERM cancel. A second signal ends the process at once.
// Call stop at the end of the program.
func Context() (ctx context.Context, stop context.CancelFunc) {
	ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

const module = "github.com/tidemark-go/tidemark"

// Version returns the text for --version: the version of this module, the commit, and the Go version.
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
