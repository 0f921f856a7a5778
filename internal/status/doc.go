// Package status is the one read model of the state of a Tidemark. The command line, the API, the
// pages and the metrics all show it, so they never disagree.
//
// It owns no table. A [Reader] reads each section from the packages that own the tables, so a page
// reads only the sections it shows. The package itself adds the health of Postgres ([Postgres]),
// speeds from two readings ([Status.Compare]) and a list of problems ([Status.Problems]). A
// [Collector] exports everything to Prometheus, from one replica.
//
// The cost of a section hardly depends on the size of the tables: docs/adr/0009. A [Reader] and a
// [Collector] are safe for concurrent use, a [Status] is not.
package status
