// Package dcb shows that conditions hold. A schedule detects each known way to get the locks wrong.
// An oracle recomputes what many writers were allowed to append and what was refused. A register
// built on conditions is linearizable. Killed backends and clients change none of it. The oracle
// and the register come from test/support/boundary. test/dcbhttp runs them over HTTP.
package dcb
