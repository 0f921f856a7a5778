// Package replay applies events again, beside the live tables, in transactions that are rolled back: to verify rows,
// to look back, to say why a row is as it is, and to keep snapshots.
package replay
