// Package retention archives closed campaigns by the policies of a file. Each worker that has the file
// runs a [Runner]; one at a time has the duty. A policy that runs twice does no harm, because the
// archive takes each campaign once. The package owns tidemark.retention.
package retention
