// Package boundary is what conditions must pass whatever they are reached by: an oracle that
// recomputes what many writers were allowed and what one writer was refused, and a register that
// must be linearizable. Both run over a [Store], of which there are two: the Go API in test/dcb and
// the HTTP adapter in test/dcbhttp.
package boundary
