// Package dcb shows that conditions hold: each way to get the locks wrong that is known has a
// schedule that finds it, an oracle recomputes what many writers were allowed and what one was
// refused, a register built on conditions is linearizable, and killed backends and clients change
// none of it. The oracle and the register are those of test/support/boundary, which run over HTTP
// in test/dcbhttp.
package dcb
