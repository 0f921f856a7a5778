// Package replay applies events again, beside the live tables, in transactions that are rolled back: to verify rows,
// to look back, and to say why a row is as it is.
package replay
