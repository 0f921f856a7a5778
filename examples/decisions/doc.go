// Package decisions holds the usual examples of dynamic consistency boundaries as specifications
// that run: courses with limits on both sides, unique names, invoice numbers without gaps, tokens
// that expire, prices that change during a purchase, and requests that are sent twice. Each is one
// or two decision models, a rule and one append.
package decisions
