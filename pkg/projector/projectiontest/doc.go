// Package projectiontest tests the property that Tidemark relies on: a projection's tables depend
// only on the events of each campaign, in their order, or across campaigns on those of each key. Only
// then can it be rebuilt, repaired, and shared among workers.
//
// [Run] has the projection apply the same journal in many ways, in databases of its own, and
// compares its tables row by row:
//
//   - from the start, once more
//   - one event in each transaction, instead of all in one
//   - by several workers at once
//   - after the first groups were rolled back
//   - campaign by campaign: after all work items were delivered a second time; as the events arrive,
//     with campaigns interleaved, and with one campaign after another
//   - across campaigns: as the events arrive; and if it names keys, with each half of them apart. Keys that
//     share an event are in the same half
//
// It also checks that only the projection's own tables have changed. It tests only the events it is
// given: pass some of each type, of two campaigns or more, with edge cases.
//
// Do not fill columns from a sequence (serial, GENERATED … AS IDENTITY): the tables then differ,
// because a rebuild assigns other numbers.
//
// Stability: as of version 1, no function changes. A later version may check more.
package projectiontest
