// Package sqltest checks the SQL of the other packages against the migrated schema: all statements
// prepare, and, in its own tests, hot statements stay cheap however many rows there are.
package sqltest
