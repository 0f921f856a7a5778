// Package kind holds what users write and receive: projections of every kind, their policies, and
// the groups of events that they apply. Package projector exposes it through aliases.
package kind
