// Package verification is the commands that run a program's projections beside the live ones:
// verify, as-of, diff and why. tidemark has them for SQL files; the program of a worker with
// projections compiled in has them for those too.
package verification
