// Package slice makes one slice of another.
package slice

// Of returns what f returns for each of the things, in their order. The slice is never nil.
func Of[T, U any](things []T, f func(T) U) []U {
	all := make([]U, len(things))
	for i, thing := range things {
		all[i] = f(thing)
	}
	return all
}
