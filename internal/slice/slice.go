// Package slice maps slices, and counts.
package slice

// Of returns what f returns for each of the things, in their order. The slice is never nil.
func Of[T, U any](things []T, f func(T) U) []U {
	all := make([]U, len(things))
	for i, thing := range things {
		all[i] = f(thing)
	}
	return all
}

// Count returns for how many of the things f returns true.
func Count[T any](things []T, f func(T) bool) (n int) {
	for _, thing := range things {
		if f(thing) {
			n++
		}
	}
	return n
}
