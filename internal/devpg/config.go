package devpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
)

// Config configures [Open]. The zero value is the checkout's shared development server.
type Config struct {
	// Dir is the state folder. Default [DefaultDir], or for a private server a temporary folder that
	// Close removes.
	Dir string
	// Logger logs starts, stops and repairs. Default none.
	Logger *slog.Logger
	// Settings are added to the defaults in postgresql.conf. They take effect only if this call starts
	// the server.
	Settings map[string]string
	// Install puts the programs of a Postgres into the folder dir/bin. Open calls it if no Postgres is
	// installed. Default: Open fails.
	Install func(ctx context.Context, dir string) error
	// Private servers are not shared: Close always stops them.
	Private bool
}

// DefaultDir returns the state folder for the working directory: .tidemark in the nearest parent
// with a .tidemark or a .git; else in the topmost parent with a go.mod; else in the working directory
// itself.
func DefaultDir() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the folder for .tidemark: %w", err)
	}
	return stateDir(wd)
}

func stateDir(wd string) (string, error) {
	root := wd
	for dir := wd; ; dir = filepath.Dir(dir) {
		for _, mark := range []string{stateName, ".git", "go.mod"} {
			_, err := os.Stat(filepath.Join(dir, mark))
			switch {
			case errors.Is(err, fs.ErrNotExist):
				continue
			case err != nil:
				return "", fmt.Errorf("find the folder for .tidemark: %w", err)
			case mark == "go.mod":
				root = dir
			default:
				return filepath.Join(dir, stateName), nil
			}
		}
		if dir == filepath.Dir(dir) {
			return filepath.Join(root, stateName), nil
		}
	}
}

const stateName = ".tidemark"

// settings returns the server's settings. The defaults are durable, with room for a few hundred
// connections and for bulk appends.
func (c Config) settings(port int) map[string]string {
	all := map[string]string{
		"shared_buffers":     "256MB",
		"max_connections":    "200",
		"max_wal_size":       "4GB",
		"fsync":              "on",
		"synchronous_commit": "on",
		"log_line_prefix":    "%m [%p] %d ",
	}
	maps.Copy(all, c.Settings)
	all["port"] = fmt.Sprint(port)
	all["listen_addresses"] = host
	all["unix_socket_directories"] = "" // paths of sockets are limited to 107 bytes; a checkout's may be longer
	return all
}
