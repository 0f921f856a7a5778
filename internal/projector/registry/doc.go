// Package registry knows the projections of a worker and what the database says of them: their versions, sets of
// tables, states and functions. It registers them, and takes the lock under which that changes. What all parts of a
// projector share is its Base.
package registry
