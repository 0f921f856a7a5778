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

// findBinaries searches this machine; what was once downloaded comes last, and where there is
// nothing, they are downloaded into the state folder.
func findBinaries(ctx context.Context, dir string, log *slog.Logger) ([]binaries, error) {
	found, err := search{getenv: os.Getenv}.all(ctx)
	if os.Getenv(binEnv) != "" || err != nil && !errors.Is(err, errNoBinaries) {
		return found, err
	}
	if earlier, ok := downloaded(dir); ok {
		return append(found, earlier), nil
	}
	if err == nil {
		return found, nil
	}
	bin, downloadErr := download(ctx, dir, log)
	if downloadErr != nil {
		return nil, errors.Join(err, downloadErr)
	}
	return []binaries{bin}, nil
}

const downloadName = "download"

func downloaded(dir string) (binaries, bool) {
	to, err := filepath.EvalSymlinks(filepath.Join(dir, downloadName))
	bin := binaries(filepath.Join(to, "bin"))
	return bin, err == nil && bin.complete()
}

func download(ctx context.Context, dir string, log *slog.Logger) (binaries, error) {
	home, err := place(dir, downloadName, unprivileged())
	if err != nil {
		return "", err
	}
	port, err := freePort(ctx, 0)
	if err != nil {
		return "", err
	}
	to := filepath.Join(home, downloadName)
	if err := os.RemoveAll(to); err != nil { // an unfinished one
		return "", err
	}
	log.WarnContext(ctx, "no PostgreSQL on this machine: downloading its binaries", "to", to)
	trial := filepath.Join(to, "trial")
	// The library downloads only on the way to a start of its own. That start fails when this is root,
	// which does not matter: what counts is that the binaries are there.
	server := embedded.NewDatabase(embedded.DefaultConfig().Version(embedded.V16).Port(uint32(port)).
		BinariesPath(to).CachePath(to).RuntimePath(trial).Logger(io.Discard))
	startErr := server.Start()
	if startErr == nil {
		startErr = server.Stop()
	}
	bin, ok := downloaded(dir)
	if !ok {
		return "", fmt.Errorf("download PostgreSQL: %w", startErr)
	}
	return bin, os.RemoveAll(trial)
}
