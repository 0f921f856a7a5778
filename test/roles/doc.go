// Package roles connects as each role of deploy/sql/roles.sql and shows what the role may and may
// not do.
package roles
