// Package sqltest holds the SQL of the other packages against the migrated schema: that all of it
// prepares, and, in its own tests, that what is hot stays cheap however much there is.
package sqltest
