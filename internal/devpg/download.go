package devpg

import (
	"context"
	"errors"
	"fmt"
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
	bin, downloadErr := download(ctx, filepath.Join(dir, "download"), log)
	if downloadErr != nil {
		return nil, errors.Join(err, downloadErr)
	}
	return []binaries{bin}, nil
}

func download(ctx context.Context, dir string, log *slog.Logger) (binaries, error) {
	bin := binaries(filepath.Join(dir, "bin"))
	if bin.complete() {
		return bin, nil
	}
	log.WarnContext(ctx, "no PostgreSQL on this machine: downloading its binaries", "to", dir)
	port, err := freePort(ctx, 0)
	if err != nil {
		return "", err
	}
	trial := filepath.Join(dir, "trial")
	// The library downloads only on the way to a start of its own. That start fails when this is root, which does not matter:
	// what counts is that the binaries are there.
	server := embedded.NewDatabase(embedded.DefaultConfig().Version(embedded.V16).Port(uint32(port)).
		BinariesPath(dir).CachePath(dir).RuntimePath(trial).Logger(nil))
	startErr := server.Start()
	if startErr == nil {
		startErr = server.Stop()
	}
	if !bin.complete() {
		return "", fmt.Errorf("download PostgreSQL: %w", startErr)
	}
	return bin, os.RemoveAll(trial)
}
