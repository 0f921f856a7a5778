// Package kind is what the engine does with projections of every kind, and with the groups of events that they
// apply. Package projection declares them.
package kind
