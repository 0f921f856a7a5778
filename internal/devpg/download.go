package devpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// findBinaries searches this machine, and where it has none, downloads them into the state folder.
func findBinaries(ctx context.Context, dir string, log *slog.Logger) ([]binaries, error) {
	found, err := search{getenv: os.Getenv}.all(ctx)
	if !errors.Is(err, errNoBinaries) || os.Getenv(binEnv) != "" {
		return found, err
	}
	bin, downloadErr := download(ctx, dir, log)
	if downloadErr != nil {
		return nil, errors.Join(err, downloadErr)
	}
	return []binaries{bin}, nil
}

const downloadName = "download"

func download(ctx context.Context, dir string, log *slog.Logger) (binaries, error) {
	to, err := filepath.EvalSymlinks(filepath.Join(dir, downloadName))
	if bin := binaries(filepath.Join(to, "bin")); err == nil && bin.complete() {
		return bin, nil
	}
	home, err := place(dir, downloadName, unprivileged())
	if err != nil {
		return "", err
	}
	port, err := freePort(ctx, 0)
	if err != nil {
		return "", err
	}
	to = filepath.Join(home, downloadName)
	if err := os.RemoveAll(to); err != nil { // an unfinished one
		return "", err
	}
	log.WarnContext(ctx, "no PostgreSQL on this machine: downloading its binaries", "to", to)
	trial := filepath.Join(to, "trial")
	// The library downloads only on the way to a start of its own. That start fails when this is root, which does not matter:
	// what counts is that the binaries are there.
	server := embedded.NewDatabase(embedded.DefaultConfig().Version(embedded.V16).Port(uint32(port)).
		BinariesPath(to).CachePath(to).RuntimePath(trial).Logger(io.Discard))
	startErr := server.Start()
	if startErr == nil {
		startErr = server.Stop()
	}
	bin := binaries(filepath.Join(to, "bin"))
	if !bin.complete() {
		return "", fmt.Errorf("download PostgreSQL: %w", startErr)
	}
	return bin, os.RemoveAll(trial)
}
