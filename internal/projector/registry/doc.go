// Package registry holds a worker's projections and their state in the database: versions, sets of
// tables, states and functions. It registers them, and takes the lock under which they change. Base
// holds what all parts of a projector share.
package registry
