package devpg

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	logName = "postgres.log"
	// maxLogSize is where a start begins the log anew.
	maxLogSize = 16 << 20
)

// openLog answers the server's log and its present size.
func (s *Server) openLog() (*os.File, int64, error) {
	path := filepath.Join(s.dir, logName)
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, 0, fmt.Errorf("open the server's log: %w", err)
	}
	info, err := out.Stat()
	size := int64(0)
	if err == nil {
		size = info.Size()
		if size > maxLogSize {
			size = 0
			err = out.Truncate(0)
		}
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("open the server's log: %w", err), out.Close())
	}
	return out, size, nil
}

// logSince answers what the server said since the log had that size.
func (s *Server) logSince(began int64) string {
	path := filepath.Join(s.dir, logName)
	text, err := os.ReadFile(path)
	if err != nil || int64(len(text)) <= began {
		return "see " + path
	}
	return strings.TrimSpace(string(text[began:]))
}

// Log answers what the server has said, in its log from when that was begun anew.
func (s *Server) Log() (string, error) {
	text, err := os.ReadFile(filepath.Join(s.dir, logName))
	if err != nil {
		return "", fmt.Errorf("read the server's log: %w", err)
	}
	return string(text), nil
}
