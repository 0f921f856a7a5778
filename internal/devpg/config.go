package devpg

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
)

// Config says where the cluster is and how it runs. The zero value is the checkout's shared development server.
type Config struct {
	// Dir is the state folder. Empty means [DefaultDir], or for a private server a temporary folder that Close removes.
	Dir string
	// Logger hears about starts, stops and repairs. Nil means silence.
	Logger *slog.Logger
	// Settings are lines of postgresql.conf that go on top of the defaults. They take effect when this
	// call starts the server, not when it finds one running.
	Settings map[string]string
	// Private servers are not shared: Close always stops them.
	Private bool
}

// DefaultDir answers the state folder for the working directory: .tidemark in the nearest folder
// upwards that has a .tidemark or a .git; without one, in the highest folder upwards that has a
// go.mod; without that, in the working directory itself.
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

// settings are the defaults under Config.Settings: durable, with room for a few hundred connections
// and for bulk appends.
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
	all["unix_socket_directories"] = "" // a socket's path may not exceed 107 bytes; a checkout's may
	return all
}
