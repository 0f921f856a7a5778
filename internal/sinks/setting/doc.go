// Package setting reads what a configuration says of a broker: under the sink's own key, in the
// query of its URL, or both.
package setting
