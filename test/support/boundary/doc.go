// Package boundary tests conditions through any interface: an oracle that recomputes what many
// writers were allowed to append and what one writer was refused, and a register that must be
// linearizable. Both run over a [Store], which has two implementations: the Go API in test/dcb and
// the HTTP adapter in test/dcbhttp.
package boundary
