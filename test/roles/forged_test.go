package roles_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/projector/registry"
	"github.com/tidemark-go/tidemark/pkg/lookback"
	"github.com/tidemark-go/tidemark/pkg/projector"
)

// TestLooksBackDoNotTrustTheRegistry has roles that write the registry forge which tables a projection has. Its code
// calls a function by a bare name, and the worker's role has put one of that name among the read models.
func TestLooksBackDoNotTrustTheRegistry(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]string{
		"without tables":        `UPDATE tidemark.projections SET table_names = '{}'`,
		"with a missing table":  `UPDATE tidemark.projections SET table_names = '{none}'`,
		"with tables of others": `UPDATE tidemark.projections SET table_names = '{limits}', schema_name = 'tidemark'`,
		"as it is":              `SELECT 1`,
	} {
		for _, role := range []string{"worker", "process"} {
			t.Run(name+" by "+role, func(t *testing.T) {
				t.Parallel()
				in := layout(t)
				login := in.worker
				if role != "worker" {
					login = in.login(t, role)
				}
				_, err := in.connect(t, login).Exec(t.Context(), forge)
				must(t, err)
				for who, url := range map[string]string{"the operator": in.operator, "a superuser": in.super} {
					code := projecting(t, projector.Config{Pool: in.connect(t, url), Projections: projections(t, 1), GapRate: -1})
					for what, look := range map[string]func() error{
						"as-of": func() error { _, err := code.AsOf(t.Context(), "hashed", "c", 1); return err },
						"diff":  func() error { _, err := code.Diff(t.Context(), "hashed", "c", 0, 1); return err },
						"why": func() error {
							_, err := code.Why(t.Context(), lookback.WhyRequest{
								Projection: "hashed", CampaignID: "c", Key: []string{"c", "1"},
							})
							return err
						},
						"verify": func() error {
							_, err := code.Verify(t.Context(), lookback.VerifyRequest{Projection: "hashed", All: true})
							return err
						},
					} {
						err := look()
						var foreign *lookback.OwnerError
						if errors.Is(err, registry.ErrRegistered) && what == "verify" && strings.HasPrefix(forge, "UPDATE") {
							continue // the schema is not the one of this program
						}
						if !errors.As(err, &foreign) || foreign.Owner != in.prefix+"_worker" {
							t.Errorf("%s by %s: %v", what, who, err)
						}
						in.untouched(t, what+" by "+who)
					}
				}
			})
		}
	}
}

// TestWhoMayLookUpNamesAmongReadModels shows that the worker's login looks back, also beside objects of roles that may
// do all that it may, and no longer beside those of others.
func TestWhoMayLookUpNamesAmongReadModels(t *testing.T) {
	t.Parallel()
	in := install(t, false)
	in.fill(t)
	applies := in.as(t, "worker")
	_, err := worker(t, applies, 1).Drain(t.Context())
	must(t, err)
	looks := func() error {
		_, err := worker(t, applies, 1).AsOf(t.Context(), "hashed", "c", 1)
		return err
	}
	must(t, looks())
	_, err = in.admin.Exec(t.Context(), `CREATE FUNCTION tidemark_views.of_superuser() RETURNS integer LANGUAGE sql RETURN 1;
		CREATE FUNCTION tidemark_views.of_operator() RETURNS integer LANGUAGE sql RETURN 1;
		ALTER FUNCTION tidemark_views.of_operator() OWNER TO `+in.prefix+`_operator`, pgx.QueryExecModeSimpleProtocol)
	must(t, err)
	must(t, looks())
	_, err = in.admin.Exec(t.Context(), `CREATE FUNCTION tidemark_views.of_reader() RETURNS integer LANGUAGE sql RETURN 1;
		ALTER FUNCTION tidemark_views.of_reader() OWNER TO `+in.prefix+`_reader`, pgx.QueryExecModeSimpleProtocol)
	must(t, err)
	var foreign *lookback.OwnerError
	if err := looks(); !errors.As(err, &foreign) || foreign.Owner != in.prefix+"_reader" || foreign.Schema != "tidemark_views" {
		t.Errorf("beside a function of the reader's role: %v", err)
	}
}
