package session_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/session"
)

func TestEachConnectionReadsThePasswordAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pgpass")
	password := func(text string) {
		if err := os.WriteFile(file, []byte("*:*:*:*:"+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	password("first")
	cfg, err := session.Parse("postgres://app@localhost/app?passfile=" + file + "\n")
	if err != nil {
		t.Fatal(err)
	}
	password("second")
	seen := ""
	session.Before(cfg, func(_ context.Context, conn *pgx.ConnConfig) error {
		seen = conn.Password
		conn.Password = "token"
		return nil
	})
	conn := cfg.ConnConfig.Copy()
	if err := cfg.BeforeConnect(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	if seen != "second" || conn.Password != "token" {
		t.Errorf("the file's password is %q, the program's %q", seen, conn.Password)
	}
}
