package failed_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/failed"
	"github.com/tidemark-go/tidemark/test/support/pgtest"
)

func TestWhatIsDoneToAWholeProjectionOrGroupIsWritten(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	write := func(what, group, projection string, act failed.Act) error {
		return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			return failed.Write(t.Context(), tx, what, group, projection, act)
		})
	}
	ada := failed.Act{By: "ada", Reason: "over"}
	for _, projection := range []string{"scores", ""} {
		if err := write("removed", "default", projection, ada); err != nil {
			t.Fatal(err)
		}
	}
	records, err := failed.History(t.Context(), pool, failed.LogFilter{Acts: []string{"removed"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != 2 || records[0].Projection != "" || records[1].Projection != "scores" ||
		records[1].Group != "default" || records[1].Actor != "ada" || records[1].Reason != "over" {
		t.Errorf("the log has %+v", records)
	}
	for want, err := range map[string]error{
		`what is "deleted": known are`:     write("deleted", "default", "", ada),
		"name the consumer group that was": write("removed", "", "scores", ada),
		"By is missing":                    write("removed", "default", "", failed.Act{}),
		"Reason has 5000 bytes, the limit is ": write("removed", "default", "",
			failed.Act{By: "ada", Reason: strings.Repeat("x", 5000)}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
