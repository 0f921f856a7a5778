package lookback

import "fmt"

// OwnerError is returned instead of reading a table whose owner may do less than the session. Reading
// it can run code of its owner, such as a policy, a cast or a view, with all rights of the session's
// user: SET ROLE is no boundary, because that code can reset it.
type OwnerError struct {
	Table  string // with its schema, quoted if need be; "": the whole schema
	Schema string // without a table
	Owner  string // its role
	User   string // of the session
}

func (e *OwnerError) Error() string {
	what := fmt.Sprintf("the table %s belongs to %s", e.Table, e.Owner)
	if e.Table == "" {
		what = fmt.Sprintf("the schema %s may have functions of %s", e.Schema, e.Owner)
	}
	return fmt.Sprintf("%s, and this session is one of %s, which may do more: reading it would "+
		"lend these rights to %[3]s. Connect with a login that is a member of %[3]s and of no other role, as workers do "+
		"(--models-url or TIDEMARK_MODELS_URL; in Go the pool), or let a worker do it, by the API or the pages",
		what, e.User, e.Owner)
}
