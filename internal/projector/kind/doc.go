// Package kind is what users write and are given: projections of every kind, their policies, and the groups of events
// that they apply. Package projector shows it to them by aliases.
package kind
