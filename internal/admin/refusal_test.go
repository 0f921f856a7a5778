package admin_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/test/support/acting"
)

func TestARequestThatMakesNoSenseNamesTheValueAndTheLimit(t *testing.T) {
	t.Parallel()
	pool, acts := database(t, 1)
	for name, c := range map[string]struct {
		change func(*admin.Request)
		want   string
	}{
		"nobody":            {func(r *admin.Request) { r.Who.Name = "" }, "the operator's name is missing"},
		"a reason of 4 KiB": {func(r *admin.Request) { r.Reason = strings.Repeat("x", 4096) }, ""},
		"a longer reason": {
			func(r *admin.Request) { r.Reason = strings.Repeat("x", 4097) },
			"reason has 4097 bytes, the limit is 4096",
		},
		"a key of 255 bytes": {func(r *admin.Request) { r.Key = strings.Repeat("k", 255) }, ""},
		"a longer key": {
			func(r *admin.Request) { r.Key = strings.Repeat("k", 256) },
			"idempotency key has 256 bytes, the limit is 255",
		},
		"a reason with NUL": {func(r *admin.Request) { r.Reason = "a\x00b" }, `reason "a\x00b": use UTF-8 without NUL`},
		"a key that is no text": {
			func(r *admin.Request) { r.Key = "a\xffb" },
			`idempotency key "a\xffb": use UTF-8 without NUL`,
		},
	} {
		r := as(auth.Operator)
		c.change(&r)
		_, err := acting.Do(t.Context(), acts, r, "pauseGroup", "group=g", "for=1h")
		if c.want == "" && err != nil || c.want != "" &&
			(!errors.Is(err, admin.ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if n := scan[int](t, pool, `SELECT count(*) FROM tidemark.operator_log`); n != 2 {
		t.Errorf("the log has %d acts, want the two that made sense", n)
	}
	for name, c := range map[string]struct{ act, params string }{
		"no projection":          {"verifyProjection", ""},
		"campaigns and a sample": {"verifyProjection", "projection=p campaigns=c001 sample=1"},
		"a sample below none":    {"verifyProjection", "projection=p sample=-1"},
		"too many campaigns":     {"verifyProjection", "projection=p" + strings.Repeat(" campaigns=c", 5001)},
		"a proof of a sample":    {"verifyProjection", "projection=p sample=1 proof=true"},
		"a proof of a campaign":  {"verifyProjection", "projection=p campaigns=c001 proof=true"},
		"a proof of columns":     {"verifyProjection", "projection=p ignore=n proof=true"},
		"no campaign":            {"republish", "topic=t publisher=s from=1"},
		"from nowhere":           {"republish", "topic=t publisher=s campaign=c001"},
		"until before it":        {"republish", "topic=t publisher=s campaign=c001 from=3 until=2"},
		"two places":             {"resetPublisher", "topic=t publisher=s position=1 end=true"},
		"a limit of -1":          {"requeueManyFailed", "all=true limit=-1"},
		"a limit that is large":  {"requeueManyFailed", "all=true limit=1000001"},
	} {
		if _, err := acting.Do(t.Context(), acts, as(auth.Admin), c.act, strings.Fields(c.params)...); !errors.Is(err,
			admin.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := scan[int](t, pool, `SELECT count(*) FROM tidemark.operations`); n != 0 {
		t.Errorf("%d operations were started", n)
	}
}

// Workers do not wait long for an act, nor an act for a worker.
func TestAnActIsBounded(t *testing.T) {
	t.Parallel()
	pool, _ := database(t, 1)
	exec(t, pool, `CREATE FUNCTION slow() RETURNS trigger
		LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(3600); RETURN NEW; END $$;
		CREATE TRIGGER slow BEFORE INSERT ON tidemark.operator_log FOR EACH ROW EXECUTE FUNCTION slow()`)
	acts, err := admin.New(admin.Config{Pool: pool, Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, err = acting.Do(t.Context(), acts, as(auth.Operator), "pauseGroup", "group=g")
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "57014" {
		t.Errorf("an act that takes an hour: %v", err)
	}
	if n := scan[int](t, pool, `SELECT count(*) FROM tidemark.pauses`); n != 0 {
		t.Error("it was done all the same")
	}
}
