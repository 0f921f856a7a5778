// Package retention archives closed campaigns by the policies of a file. Each worker that has the file
// runs a [Runner]; one at a time has the duty. A policy that runs twice does no harm, because the
// archive takes each campaign once. It also brings back the campaigns that appends have asked for. The
// package owns tidemark.retention and, with tidemark.ask_restore, tidemark.restore_requests.
package retention
