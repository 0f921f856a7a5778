package roles_test

import (
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/tidemark-go/tidemark/internal/doctor"
	"github.com/tidemark-go/tidemark/internal/session"
	"github.com/tidemark-go/tidemark/internal/status"
	"github.com/tidemark-go/tidemark/migrations"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/journal"
	"github.com/tidemark-go/tidemark/pkg/lookback"
)

// shadowed is a function or an operator of pg_catalog.
type shadowed struct {
	Name     string
	Operator bool
	Kind     string
	Args     []string
	Returns  string
	Set      bool
	Variadic bool
	Outs     []string // quoted names of output arguments
	OutTypes []string
}

const (
	selectShadowed = `
		SELECT proname::text, false, prokind::text, array(SELECT format_type(t, NULL)
			FROM unnest(proargtypes) WITH ORDINALITY AS a (t, n) ORDER BY n),
			format_type(prorettype, NULL), proretset, provariadic <> 0,
			array(SELECT quote_ident(a.name) FROM unnest(proargnames, proargmodes) WITH ORDINALITY AS a (name, mode, n)
				WHERE a.mode IN ('o', 't') ORDER BY a.n),
			array(SELECT format_type(a.type, NULL) FROM unnest(proallargtypes, proargmodes) WITH ORDINALITY AS a (type, mode,
				n) WHERE a.mode IN ('o', 't') ORDER BY a.n)
		FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind IN ('f', 'a')
		UNION ALL
		SELECT oprname::text, true, 'f', ARRAY[format_type(oprleft, NULL), format_type(oprright, NULL)],
			format_type(oprresult, NULL), false, false, '{}', '{}'
		FROM pg_operator WHERE oprnamespace = 'pg_catalog'::regnamespace AND oprkind = 'b'
			AND ARRAY[oprleft, oprright]::regtype[] <@
				'{text,name,bigint,integer,boolean,jsonb,uuid,oid,interval,timestamptz,numeric,float8,anyarray,anycompatiblearray,anycompatible,"char"}'::regtype[]`

	// makeAll skips objects that cannot be created, such as functions with arguments of internal
	// types.
	makeAll = `
		CREATE SEQUENCE public.ran;
		GRANT ALL ON SEQUENCE public.ran TO PUBLIC;
		CREATE FUNCTION public.make_all(statements text[]) RETURNS integer LANGUAGE plpgsql SET search_path = pg_catalog AS $$
		DECLARE
			made integer := 0;
			s text;
		BEGIN
			FOREACH s IN ARRAY statements LOOP
				BEGIN
					EXECUTE s;
					made := made + 1;
				EXCEPTION WHEN OTHERS THEN NULL;
				END;
			END LOOP;
			RETURN made;
		END $$`
)

// better returns replacements of argument types. Postgres prefers a function that takes the types
// of a call exactly, in whatever schema it is.
func better() []map[string]string {
	return []map[string]string{
		{},
		{"bigint": "integer"},
		{"text": "character varying"},
		{"text": "name"},
		{"double precision": "integer", "numeric": "bigint"},
		{"anyarray": "text[]", "anyelement": "text", "anycompatiblearray": "text[]", "anycompatible": "text"},
		{"anyarray": "bigint[]", "anyelement": "bigint", "anycompatiblearray": "bigint[]", "anycompatible": "bigint"},
	}
}

// shadows returns statements that create functions and operators in a schema. They record that
// another role has run them, then do the same as Postgres' own.
func shadows(schema, creator string, all []shadowed) (statements, names []string) {
	seen := map[string]bool{}
	for _, s := range all {
		forms := [][]string{s.Args}
		if s.Variadic {
			first := s.Args[:len(s.Args)-1]
			forms = [][]string{
				first, append(slices.Clone(first), "text"), append(slices.Clone(first), "text", "text"),
				append(slices.Clone(first), "name", "text"),
			}
		}
		for _, form := range forms {
			for _, other := range better() {
				args, passed := make([]string, len(form)), make([]string, len(form))
				for i, arg := range form {
					args[i], passed[i] = arg, fmt.Sprintf("$%d::%s", i+1, arg)
					if t, ok := other[arg]; ok {
						args[i] = t
					}
					if strings.HasPrefix(arg, "any") {
						passed[i] = fmt.Sprintf("$%d", i+1)
					}
				}
				returns := s.Returns
				if strings.HasPrefix(returns, "any") {
					if returns = other[returns]; returns == "" {
						continue
					}
				}
				signature := s.Name + "(" + strings.Join(args, ", ") + ")"
				if seen[signature] {
					continue
				}
				seen[signature] = true
				names = append(names, schema+"."+signature)
				own := "pg_catalog." + pgx.Identifier{s.Name}.Sanitize() + "(" + strings.Join(passed, ", ") + ")"
				function := schema + "." + pgx.Identifier{s.Name}.Sanitize()
				if s.Operator {
					function = fmt.Sprintf("%s.operator_%d", schema, len(names))
					own = passed[0] + " OPERATOR(pg_catalog." + s.Name + ") " + passed[1]
				}
				answer := "RETURN " + own
				for i, out := range s.Outs {
					args = append(args, "OUT "+out+" "+s.OutTypes[i])
				}
				switch {
				case s.Kind == "a":
					answer = "RETURN NULL"
				case len(s.Outs) > 0 && s.Set:
					returns, answer = "SETOF "+returns, "RETURN QUERY SELECT * FROM "+own
				case len(s.Outs) > 0:
					answer = "SELECT * INTO " + strings.Join(s.Outs, ", ") + " FROM " + own
				case s.Set:
					returns, answer = "SETOF "+returns, "RETURN QUERY SELECT "+own
				case returns == "void":
					answer = "PERFORM " + own
				}
				statements = append(statements, fmt.Sprintf(`CREATE FUNCTION %s(%s) RETURNS %s LANGUAGE plpgsql
					SET search_path = pg_catalog AS $shadow$
					BEGIN IF current_user <> '%s' THEN PERFORM setval('public.ran', %d); END IF; %s; END $shadow$`,
					function, strings.Join(args, ", "), returns, creator, len(names), answer))
				if s.Operator {
					statements = append(statements, fmt.Sprintf("CREATE OPERATOR %s.%s (FUNCTION = %s, LEFTARG = %s, RIGHTARG = %s)",
						schema, s.Name, function, args[0], args[1]))
				}
			}
		}
	}
	return statements, names
}

// words returns every word in our SQL, wherever it is written.
func words(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	word := regexp.MustCompile(`[a-z_0-9]+`)
	for _, dir := range []string{"pkg", "internal", "cmd", "migrations"} {
		must(t, filepath.WalkDir(filepath.Join("../..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || filepath.Ext(path) != ".go" &&
				filepath.Ext(path) != ".sql" {
				return err
			}
			text, err := os.ReadFile(path)
			for _, w := range word.FindAllString(string(text), -1) {
				found[w] = true
			}
			return err
		}))
	}
	return found
}

func TestNoFunctionOrOperatorOfAnotherRoleIsRun(t *testing.T) {
	t.Parallel()
	in := install(t, false)
	_, err := in.admin.Exec(t.Context(), makeAll, pgx.QueryExecModeSimpleProtocol)
	must(t, err)
	rows, err := in.admin.Query(t.Context(), selectShadowed)
	must(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[shadowed])
	must(t, err)
	ours := words(t)
	ours["pg_get_object_address"] = true // returns output arguments, and below shows that such functions are shadowed
	all = slices.DeleteFunc(all, func(s shadowed) bool { return !s.Operator && !ours[s.Name] })

	logins, pools, names := map[string]string{}, map[string]*pgxpool.Pool{}, map[string][]string{}
	var path []string
	for _, role := range []string{"appender", "worker", "publisher", "reader", "operator"} {
		logins[role] = in.login(t, role)
		schema := "of_" + role
		_, err := in.admin.Exec(t.Context(),
			fmt.Sprintf("CREATE SCHEMA %s AUTHORIZATION %s_%s; GRANT USAGE ON SCHEMA %[1]s TO PUBLIC", schema, in.prefix, role),
			pgx.QueryExecModeSimpleProtocol)
		must(t, err)
		path = append(path, schema)
	}
	for _, role := range []string{"appender", "worker", "publisher", "reader", "operator"} {
		pool := in.connect(t, logins[role])
		of := all
		if role == "worker" { // a worker runs its own objects among the read models, and must not break what it applies
			of = slices.DeleteFunc(slices.Clone(all), func(s shadowed) bool {
				return s.Kind == "a" || s.Variadic || slices.ContainsFunc(append(s.Args, s.Returns), func(t string) bool {
					return strings.HasPrefix(t, "any")
				})
			})
		}
		for _, schema := range []string{"of_" + role, "tidemark_views"} {
			if schema == "tidemark_views" && role == "operator" { // the operator is a worker too
				continue
			} else if schema == "tidemark_views" && role != "worker" {
				refuses(t, pool, "CREATE FUNCTION tidemark_views.f() RETURNS integer LANGUAGE sql RETURN 1")
				continue
			}
			statements, signatures := shadows(schema, in.prefix+"_"+role, of)
			var made int
			must(t, pool.QueryRow(t.Context(), "SELECT public.make_all($1)", statements).Scan(&made))
			if made < 1000 {
				t.Errorf("%s could make only %d of %d functions and operators", role, made, len(statements))
			}
			names[schema] = signatures
		}
		refuses(t, pool, "CREATE FUNCTION public.f() RETURNS integer LANGUAGE sql RETURN 1",
			"CREATE TABLE public.goose_db_version_2 (n integer)")
		pool.Close()
	}
	_, err = in.admin.Exec(t.Context(), fmt.Sprintf("ALTER DATABASE %s SET search_path = %s, public",
		in.admin.Config().ConnConfig.Database, strings.Join(path, ", ")))
	must(t, err)

	ran := func(what string) {
		t.Helper()
		var n int
		var called bool
		must(t, in.admin.QueryRow(t.Context(), "SELECT last_value, is_called FROM public.ran").Scan(&n, &called))
		if called {
			var which []string
			for _, of := range names {
				if n <= len(of) {
					which = append(which, of[n-1])
				}
			}
			t.Errorf("%s ran as somebody else one of %q", what, which)
		}
		_, err := in.admin.Exec(t.Context(), "SELECT pg_catalog.setval('public.ran', 1, false)")
		must(t, err)
	}
	open := func(url string) *pgxpool.Pool {
		t.Helper()
		cfg, err := pgxpool.ParseConfig(url)
		must(t, err)
		pool, err := session.Open(t.Context(), cfg)
		must(t, err)
		t.Cleanup(pool.Close)
		return pool
	}
	for role, url := range logins {
		pools[role] = open(url)
	}
	super := open(in.url)

	// Where the path allows it, the shadows are found.
	naive, err := pgx.Connect(t.Context(), in.url)
	must(t, err)
	for _, sql := range []string{
		"SELECT hashtextextended('x', 0), quote_ident('x'::name)",
		"SELECT objid FROM pg_get_object_address('table'::name, '{pg_catalog,pg_class}'::text[], '{}'::text[])",
	} {
		_, err = naive.Exec(t.Context(), sql)
		must(t, err)
		var called bool
		must(t, in.admin.QueryRow(t.Context(), "SELECT is_called FROM public.ran").Scan(&called))
		if !called {
			t.Fatalf("the shadows are not found at all by %s", sql)
		}
		_, err = in.admin.Exec(t.Context(), "SELECT pg_catalog.setval('public.ran', 1, false)")
		must(t, err)
	}
	must(t, naive.Close(t.Context()))

	must(t, migrations.Down(t.Context(), in.url, 0))
	must(t, migrations.Up(t.Context(), in.url))
	ran("migrate down and up")
	db, err := sql.Open("pgx", in.url) // like the goose tool
	must(t, err)
	defer func() { must(t, db.Close()) }()
	tool, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithDisableGlobalRegistry(true),
		goose.WithTableName("public.goose_db_version"))
	must(t, err)
	_, err = tool.DownTo(t.Context(), 0)
	must(t, err)
	_, err = tool.Up(t.Context())
	must(t, err)
	_, err = tool.Down(t.Context())
	must(t, err)
	_, err = tool.Up(t.Context())
	must(t, err)
	ran("goose up, down and redo")
	in.apply(t)
	ran("roles.sql")

	append2 := func(campaign string) {
		t.Helper()
		must(t, pgx.BeginFunc(t.Context(), pools["appender"], func(tx pgx.Tx) error {
			if _, err := (journal.Journal{}).Append(t.Context(), tx, campaign, journal.Any, newEvent("ann"), newEvent("ben")); err != nil {
				return err
			}
			_, err := journal.Journal{}.AppendAll(t.Context(), tx, journal.Batch{
				CampaignID: campaign + "2",
				Events:     []event.Event{newEvent("ann")},
			})
			return err
		}))
	}
	append2("c")
	ran("append")
	apply := func(version int) {
		t.Helper()
		_, err := worker(t, pools["worker"], version).Drain(t.Context())
		must(t, err)
	}
	apply(1)
	append2("d")
	apply(1)
	ran("apply and advance")
	must(t, worker(t, pools["worker"], 1).Check(t.Context()))
	_, err = worker(t, pools["worker"], 1).AsOf(t.Context(), "counted", "c", 1)
	must(t, err)
	ran("check and as-of")
	report, err := worker(t, pools["worker"], 1).Verify(t.Context(),
		lookback.VerifyRequest{Projection: "counted", All: true})
	must(t, err)
	if report.Differences() > 0 || report.Campaigns == 0 {
		t.Errorf("verify: %+v", report)
	}
	ran("verify")
	publish(t, in, pools["publisher"])
	ran("the relay")
	apply(1) // what its erasure has to be done again
	apply(2)
	ran("rebuild and swap")
	rollBack(t, pools["operator"], pools["worker"], "counted")
	ran("rollback")
	_, err = in.admin.Exec(t.Context(), behind, pgx.QueryExecModeSimpleProtocol)
	must(t, err)
	everyAct(t, pools["operator"], pools["worker"], ran)
	for who, pool := range map[string]*pgxpool.Pool{"the operator": pools["operator"], "a superuser": super} {
		_, err := doctor.Run(t.Context(), pool, doctor.Options{Mode: "x"})
		must(t, err)
		ran("doctor by " + who)
		_, err = (&status.Reader{Pool: pool, Timeout: 30 * time.Second}).Read(t.Context())
		must(t, err)
		ran("status by " + who)
	}
}
