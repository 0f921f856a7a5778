package roles_test

import (
	"net/http"
	"testing"

	"github.com/tidemark-go/tidemark/internal/admin"
	"github.com/tidemark-go/tidemark/internal/auth"
	"github.com/tidemark-go/tidemark/internal/operator"
	"github.com/tidemark-go/tidemark/internal/operator/acts"
)

// TestTheSecretOfErasuresIsTheOwnersAlone has all roles try to read it, and to use it on guesses.
func TestTheSecretOfErasuresIsTheOwnersAlone(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	for _, role := range []string{"appender", "worker", "publisher", "reader", "operator"} {
		pool := in.as(t, role)
		refuses(t, pool, "SELECT FROM tidemark.erasure_secret", "DELETE FROM tidemark.erasure_secret",
			"SELECT tidemark.derive('subject', '')", "SELECT tidemark.secret_hash('tag', 'ann')",
			"UPDATE tidemark.erasures SET ended_at = now()",
			"INSERT INTO tidemark.erasures (request, actor, reason) VALUES (sha256(''), 'a', 'b')")
		if role != "operator" {
			refuses(t, pool, "SELECT tidemark.begin_erasure('c', NULL, NULL, NULL, 'a', 'b', true)",
				"SELECT tidemark.abandon_erasure(1, 'a', 'b')", "SELECT tidemark.erasure_key(1)",
				"SELECT tidemark.hold_erasure(1, 1)", "SELECT tidemark.release_erasure(1, 1)",
				"SELECT tidemark.erased_of('{ann}', NULL)")
		}
	}
}

// TestAnErasureByTheWorkersRoleIsForbidden has the acts of a worker's pages and API.
func TestAnErasureByTheWorkersRoleIsForbidden(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	do, err := admin.New(admin.Config{Pool: in.as(t, "worker")})
	must(t, err)
	for name, given := range map[string]map[string][]string{
		"eraseSubjects": {"subjects": {"ann"}}, "eraseCampaign": {"campaign": {"c"}},
	} {
		act, ok := acts.Named(name)
		if !ok {
			t.Fatal(name)
		}
		in, err := act.Input(func(name string) ([]string, bool) { return given[name], given[name] != nil })
		must(t, err)
		by := admin.Request{Who: auth.Identity{Name: "ann", Role: auth.Admin}, Reason: "a test", Confirm: act.Typed(in)}
		_, err = act.Do(t.Context(), do, by, in)
		if got, ok := operator.AnswerTo(err); !ok || got.Status != http.StatusForbidden || got.Remedy == "" {
			t.Errorf("%s: %v is answered %+v", name, err, got)
		}
	}
}
