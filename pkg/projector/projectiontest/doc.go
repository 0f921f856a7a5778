// Package projectiontest tells whether a projection keeps the promises that Tidemark relies on:
// that its tables depend on the events of each campaign, in their order, and on nothing else. Only
// then can it be rebuilt, repaired, and shared among workers.
//
// [Run] lets the projection apply the same journal in many ways, in databases of its own, and
// compares its tables row by row:
//
//   - from the start, once more
//   - after all work items were delivered a second time
//   - one event in each transaction, instead of all in one
//   - as the events arrive, with campaigns interleaved, and with one campaign after another
//   - by several workers at once
//   - after each campaign's first group was rolled back
//
// It also looks whether anything but the projection's own tables has changed. What it cannot see:
// events other than those it is given. Give it some of each type, of two campaigns or more, with
// the odd cases among them.
//
// A column filled by a sequence (serial, GENERATED … AS IDENTITY) makes tables differ, and rightly
// so: after a rebuild its numbers are others.
package projectiontest
