package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestMigrationsRunWhateverTheDatabaseHasAsDefaults(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{
		"search_path = ''", "default_transaction_isolation = 'repeatable read'",
		"default_transaction_isolation = 'serializable'", "default_transaction_deferrable = on",
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			database := pgtest.Empty(t)
			conn, err := pgx.Connect(t.Context(), database)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Exec(t.Context(), "ALTER DATABASE "+pgx.Identifier{conn.Config().Database}.Sanitize()+" SET "+
				setting); err != nil {
				t.Fatal(err)
			}
			if err := conn.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := migrations.Up(t.Context(), database); err != nil {
				t.Fatal(err)
			}
			if err := migrations.Down(t.Context(), database, 0); err != nil {
				t.Fatal(err)
			}
			if err := migrations.Up(t.Context(), database); err != nil {
				t.Fatal(err)
			}
		})
	}
}
