// Package roles connects as each role of migrations/roles/roles.sql and shows what the role may and may
// not do.
package roles
