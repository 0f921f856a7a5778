package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/config"
	"github.com/tidemark-go/tidemark/internal/surface/cli"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestKeysAreWrappedAnewByTheFirstWrappingKey(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	const older, newer = "a:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", "b:MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI="
	types, err := catalogue.New(catalogue.EventType{Name: "noted", Subject: []string{"by"}, Personal: []string{"text"}})
	if err != nil {
		t.Fatal(err)
	}
	types, err = config.WrappingKeys{Secret: older}.Seal(types)
	if err != nil {
		t.Fatal(err)
	}
	if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := journal.Journal{Catalogue: types}.Append(t.Context(), tx, "c", journal.Any,
			event.Event{Type: "noted", Payload: []byte(`{"by": "ann", "text": "x"}`)})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte("# the newer one first\n"+newer+"\n"+older+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"", cli.ExitUsage, "with which keys?"},
		{"--wrapping-keys nowhere", cli.ExitUsage, "TIDEMARK_WRAPPING_KEYS: open nowhere"},
		{"--wrapping-keys " + file + " --wrapping-keys-secret " + newer, cli.ExitUsage, "both set"},
		{"--wrapping-keys-secret b", cli.ExitUsage, "TIDEMARK_WRAPPING_KEYS_SECRET: wrapping key 1 is not NAME:KEY"},
		{"--wrapping-keys-secret " + newer, cli.ExitConflict, `wrapped by the wrapping key "a"`},
		{"--wrapping-keys " + file, cli.ExitOK, "Wrapped 1 key anew"},
		{"--wrapping-keys " + file, cli.ExitOK, "Wrapped 0 keys anew"},
		{"--json --wrapping-keys " + file, cli.ExitOK, `"rotated": 0`},
	} {
		got := execute(t, pool.Config().ConnString(), false, "keys rotate "+tt.args)
		if got.code != tt.code || !strings.Contains(got.out+got.err, tt.want) || strings.Contains(got.out+got.err, newer[2:]) {
			t.Errorf("%s: exit code %d:\n%s%s\nwant %d and %q", tt.args, got.code, got.out, got.err, tt.code, tt.want)
		}
	}
}
