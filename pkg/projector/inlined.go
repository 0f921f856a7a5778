package projector

import "github.com/tidemark-go/tidemark/pkg/projector/internal/apply"

var (
	// ErrNotRegistered is returned by [Projector.ApplyInline] before [Projector.Register] has succeeded.
	ErrNotRegistered = apply.ErrNotRegistered
	// ErrIsolation is returned by [Projector.ApplyInline] in a transaction that is not READ COMMITTED;
	// its message names the level.
	ErrIsolation = apply.ErrIsolation
)
