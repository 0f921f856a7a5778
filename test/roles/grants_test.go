package roles_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-go/tidemark/migrations"
)

var update = flag.Bool("update", false, "write the grants into security.md") //nolint:gochecknoglobals // a flag

const guide = "../../docs/guides/operations/security.md"

// roles are those of roles.sql that programs use. The owner may do everything.
func roles() []string {
	return []string{"appender", "application", "worker", "process", "publisher", "reader", "operator"}
}

// queryRoutines returns the functions of the schema, with whether each role may call them.
const queryRoutines = `SELECT p.proname || CASE WHEN p.prosecdef THEN '*' ELSE '' END,
		string_agg(r.role, ' ' ORDER BY r.ord) FILTER (WHERE has_function_privilege($1 || '_' || r.role, p.oid, 'EXECUTE'))
	FROM pg_proc p CROSS JOIN unnest($2::text[]) WITH ORDINALITY AS r (role, ord)
	WHERE p.pronamespace = 'tidemark'::regnamespace AND p.prorettype <> 'trigger'::regtype
	GROUP BY p.oid, p.proname, p.prosecdef ORDER BY 1`

// queryRelations returns the privileges of each role on tables and sequences.
const queryRelations = `SELECT r.role, concat_ws(', ', CASE WHEN c.relkind = 'S' THEN concat_ws(', ',
			CASE WHEN has_sequence_privilege(o.name, c.oid, 'SELECT') THEN 'SELECT' END,
			CASE WHEN has_sequence_privilege(o.name, c.oid, 'USAGE') THEN 'USAGE' END,
			CASE WHEN has_sequence_privilege(o.name, c.oid, 'UPDATE') THEN 'UPDATE' END)
		ELSE (SELECT string_agg(coalesce(p.privilege || CASE WHEN has_table_privilege(o.name, c.oid, p.privilege) THEN ''
				WHEN p.ord < 4 AND has_any_column_privilege(o.name, c.oid, p.privilege) THEN ' of some columns' END, ''),
				', ' ORDER BY p.ord) FILTER (WHERE has_table_privilege(o.name, c.oid, p.privilege)
					OR p.ord < 4 AND has_any_column_privilege(o.name, c.oid, p.privilege))
			FROM unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE}'::text[]) WITH ORDINALITY AS p (privilege, ord)) END), c.relname
	FROM pg_class c CROSS JOIN unnest($2::text[]) WITH ORDINALITY AS r (role, ord)
		CROSS JOIN LATERAL (SELECT $1 || '_' || r.role AS name) AS o
	WHERE c.relnamespace = 'tidemark'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
	ORDER BY r.ord, c.relname`

// grants describes what each role may do in the schema tidemark.
func (in installation) grants(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	callable, names := map[string][]string{}, []string(nil)
	var name string
	var who *string
	rows, err := in.admin.Query(t.Context(), queryRoutines, in.prefix, roles())
	must(t, err)
	_, err = pgx.ForEachRow(rows, []any{&name, &who}, func() error {
		group := "no role, only other functions and the owner"
		if who != nil {
			group = *who
		}
		if !slices.Contains(callable[group], name) {
			callable[group] = append(callable[group], name)
		}
		return nil
	})
	must(t, err)
	names = slices.SortedFunc(maps.Keys(callable), func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, " "), strings.Count(b, " ")), cmp.Compare(a, b))
	})
	text.WriteString("Functions and who may call them. A star: it runs as the owner.\n")
	for _, group := range names {
		title := strings.ReplaceAll(group, " ", ", ")
		if strings.HasPrefix(group, "no role") {
			title = group
		}
		fmt.Fprintf(&text, "\n  %s\n%s", title, wrapped(callable[group]))
	}
	text.WriteString("\nTables and sequences.\n")
	var role, privileges string
	held, order := map[string]map[string][]string{}, map[string][]string{}
	rows, err = in.admin.Query(t.Context(), queryRelations, in.prefix, roles())
	must(t, err)
	_, err = pgx.ForEachRow(rows, []any{&role, &privileges, &name}, func() error {
		if privileges == "" {
			return nil
		}
		if held[role] == nil {
			held[role] = map[string][]string{}
		}
		if held[role][privileges] == nil {
			order[role] = append(order[role], privileges)
		}
		held[role][privileges] = append(held[role][privileges], name)
		return nil
	})
	must(t, err)
	for _, role := range roles() {
		slices.Sort(order[role])
		for _, privileges := range order[role] {
			fmt.Fprintf(&text, "\n  %s: %s\n%s", role, privileges, wrapped(held[role][privileges]))
		}
	}
	return text.String()
}

func wrapped(names []string) string {
	var text strings.Builder
	line := "   "
	for i, name := range names {
		if i < len(names)-1 {
			name += ","
		}
		if len(line)+1+len(name) > 100 {
			text.WriteString(line + "\n")
			line = "   "
		}
		line += " " + name
	}
	return text.String() + line + "\n"
}

// The guide has what roles.sql grants. Write it anew with: go test ./test/roles -run TestTheGuideHasTheGrants -update.
func TestTheGuideHasTheGrants(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	page, err := os.ReadFile(guide)
	must(t, err)
	const from, to = "<!-- grants -->\n```text\n", "```\n<!-- /grants -->"
	before, rest, found := strings.Cut(string(page), from)
	written, after, closed := strings.Cut(rest, to)
	if !found || !closed {
		t.Fatal("the guide has no place for the grants")
	}
	text := in.grants(t)
	if *update {
		must(t, os.WriteFile(guide, []byte(before+from+text+to+after), 0o600))
		return
	}
	if written != text {
		t.Errorf("the guide has other grants than roles.sql. Write them anew: go test ./test/roles -run "+
			"TestTheGuideHasTheGrants -update\nroles.sql grants:\n%s", text)
	}
}

// Rights are the same whatever order roles.sql and migrations ran in, and sequences are never settable.
func TestGrantsDoNotDependOnTheOrder(t *testing.T) {
	t.Parallel()
	want := install(t, true).grants(t)
	for name, order := range map[string][]any{
		"migrations first":                    {0, "roles"},
		"in between":                          {"roles", 2, "roles", 5, "roles", 0, "roles"},
		"twice, then down and up":             {"roles", 0, "roles", "roles", "down", 0, "roles"},
		"functions made anew":                 {"roles", 0, "roles", "functions down", 0, "roles"},
		"first without them, then in between": {4, "roles", 0, "roles"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := empty(t)
			owner := ""
			url := func() string {
				if owner == "" {
					return in.url
				}
				return owner
			}
			for _, step := range order {
				switch step := step.(type) {
				case int:
					if step == 0 {
						step = math.MaxInt64
					}
					must(t, migrations.UpTo(t.Context(), url(), int64(step)))
				case string:
					switch step {
					case "down":
						must(t, migrations.Down(t.Context(), url(), 0))
						continue
					case "functions down":
						must(t, migrations.Down(t.Context(), url(), 5))
						continue
					}
					in.apply(t)
					if owner == "" {
						owner = in.login(t, "owner")
					}
				}
				settable(t, in.admin, in.prefix)
			}
			if got := in.grants(t); got != want {
				t.Errorf("the grants differ:\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// Workers, and roles that may do what they may, create schemas and read models. No one else creates anything, also
// where it was granted before.
func TestWorkersAloneCreateObjectsAndNotInPublic(t *testing.T) {
	t.Parallel()
	in := install(t, true)
	for _, role := range roles() {
		_, err := in.admin.Exec(t.Context(), fmt.Sprintf(`GRANT CREATE ON SCHEMA public TO %s_%s`, in.prefix, role))
		must(t, err)
	}
	in.apply(t)
	for _, role := range append(roles(), "owner") {
		var got [4]bool
		must(t, in.admin.QueryRow(t.Context(), `SELECT has_database_privilege($1, current_database(), 'CREATE'),
			has_schema_privilege($1, 'tidemark_views', 'CREATE'), has_schema_privilege($1, 'tidemark', 'CREATE'),
			has_schema_privilege($1, 'public', 'CREATE')`, in.prefix+"_"+role).Scan(&got[0], &got[1], &got[2], &got[3]))
		works, owns := slices.Contains([]string{"worker", "process", "operator"}, role), role == "owner"
		if want := [4]bool{works || owns, works, owns, owns}; got != want {
			t.Errorf("%s may create in the database, tidemark_views, tidemark and public: %t, want %t", role, got, want)
		}
	}
}

// The guide lists the functions that run as their caller until the script has run.
func TestTheGuideListsWhatTheScriptLetsRunAsTheOwner(t *testing.T) {
	t.Parallel()
	in := empty(t)
	must(t, migrations.Up(t.Context(), in.url))
	definers := func() (names []string) {
		t.Helper()
		rows, err := in.admin.Query(t.Context(), `SELECT DISTINCT proname FROM pg_proc
			WHERE pronamespace = 'tidemark'::regnamespace AND prosecdef ORDER BY 1`)
		must(t, err)
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		must(t, err)
		return names
	}
	before := definers()
	in.apply(t)
	made := slices.DeleteFunc(definers(), func(name string) bool { return slices.Contains(before, name) })
	page, err := os.ReadFile(guide)
	must(t, err)
	_, rest, _ := strings.Cut(string(page), "The script makes ")
	list, _, found := strings.Cut(rest, "`SECURITY DEFINER`")
	var told []string
	for i, part := range strings.Split(list, "`") {
		if i%2 == 1 {
			told = append(told, part)
		}
	}
	if slices.Sort(told); !found || !slices.Equal(told, made) {
		t.Errorf("the guide says %q, the script makes %q", told, made)
	}
}

// settable names sequences that a role may set.
func settable(t *testing.T, db *pgxpool.Pool, prefix string) {
	t.Helper()
	rows, err := db.Query(t.Context(), `SELECT r.rolname || ' ' || c.relname FROM pg_class c CROSS JOIN pg_roles r
		WHERE c.relnamespace = to_regnamespace('tidemark') AND c.relkind = 'S' AND starts_with(r.rolname, $1 || '_')
			AND r.rolname NOT LIKE '%owner%' AND has_sequence_privilege(r.oid, c.oid, 'UPDATE')`, prefix)
	must(t, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	if len(found) > 0 {
		t.Errorf("sequences that roles may set: %q", found)
	}
}
