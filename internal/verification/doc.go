// Package verification holds the commands that run a program's projections beside the live ones:
// verify, as-of, diff and why. tidemark has them for SQL files; a worker with compiled projections
// has them for those too.
package verification
