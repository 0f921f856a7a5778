// Package replay applies events again, beside the live tables, in transactions that are rolled
// back: to verify rows, to show earlier states, and to explain a row's values.
package replay
