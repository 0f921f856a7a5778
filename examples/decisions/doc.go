// Package decisions holds the examples by which dynamic consistency boundaries are usually
// explained, as specifications that run: courses with limits on both sides, names that are unique,
// invoice numbers without gaps, tokens that expire, prices that change while one shops, and
// requests that are sent twice. Each is a decision model or two, a rule, and one append.
package decisions
