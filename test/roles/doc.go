// Package roles connects as each of the roles of deploy/sql/roles.sql, and shows what each may do, and what it may not.
package roles
