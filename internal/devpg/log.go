package devpg

import (
	"fmt"
	"os"
	"path/filepath"
)

func (s *Server) logPath() string { return filepath.Join(s.dir, "postgres.log") }

// Log answers what the server has said since it was last started.
func (s *Server) Log() (string, error) {
	text, err := os.ReadFile(s.logPath())
	if err != nil {
		return "", fmt.Errorf("read the server's log: %w", err)
	}
	return string(text), nil
}
