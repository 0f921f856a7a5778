package admin_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/store/pause"
)

func TestARequestThatMakesNoSenseNamesTheValueAndTheLimit(t *testing.T) {
	t.Parallel()
	pool, acts := database(t, 1)
	target := pause.Target{Group: "g"}
	for name, c := range map[string]struct {
		change func(*admin.Request)
		want   string
	}{
		"nobody":            {func(r *admin.Request) { r.Who.Name = "" }, "who is missing"},
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
		_, err := acts.Pause(t.Context(), r, target, time.Hour)
		if c.want == "" && err != nil || c.want != "" &&
			(!errors.Is(err, admin.ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if n := scan[int](t, pool, `SELECT count(*) FROM tidemark.operator_log`); n != 2 {
		t.Errorf("the log has %d acts, want the two that made sense", n)
	}
	for name, v := range map[string]admin.Verification{
		"no projection":          {},
		"campaigns and a sample": {Projection: "p", Campaigns: []string{"c001"}, Sample: 1},
		"a sample below none":    {Projection: "p", Sample: -1},
		"too many campaigns":     {Projection: "p", Campaigns: make([]string, 5001)},
		"a proof of a sample":    {Projection: "p", Sample: 1, Proof: true},
		"a proof of a campaign":  {Projection: "p", Campaigns: []string{"c001"}, Proof: true},
		"a proof of columns":     {Projection: "p", Ignore: []string{"n"}, Proof: true},
	} {
		if _, err := acts.Projections().Verify(t.Context(), as(auth.Operator), v); !errors.Is(err, admin.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, p := range map[string]admin.Republication{
		"no campaign":     {Topic: "t", Publisher: "s", From: 1},
		"from nowhere":    {Topic: "t", Publisher: "s", CampaignID: "c001"},
		"until before it": {Topic: "t", Publisher: "s", CampaignID: "c001", From: 3, Until: 2},
	} {
		if _, err := acts.Publishers().Republish(t.Context(), as(auth.Operator), p); !errors.Is(err, admin.ErrInvalid) {
			t.Errorf("sending again %s: %v", name, err)
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
	_, err = acts.Pause(t.Context(), as(auth.Operator), pause.Target{Group: "g"}, 0)
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "57014" {
		t.Errorf("an act that takes an hour: %v", err)
	}
	if n := scan[int](t, pool, `SELECT count(*) FROM tidemark.pauses`); n != 0 {
		t.Error("it was done all the same")
	}
}
