// Package publishertest tests whether a sink keeps the promises that the relay relies on.
//
// [Run] checks these rules:
//
//   - published events arrive, in the order of each campaign, also from several goroutines
//   - a batch that is sent again arrives under the same ids
//   - the same id in several campaigns is several events
//   - the sink neither keeps nor changes the batch it is lent
//   - a refused event is named, alone and as permanent; nothing after it in its campaign
//     arrives, and all other campaigns do
//   - a cancelled context, or its deadline, ends Publish soon, as an error of the sink, not of
//     an event
//   - while the other side is down nothing is refused for good; when it is back, publishing goes on
//   - Close can be called twice, and Publish returns an error afterwards
//
// Rules that need an ability of the other side run only if the [Target] has it. Test sinks against
// the real other side. Let TestMain verify with goleak that a closed sink leaves no goroutine behind.
//
// Stability: as of version 1, no function changes. A later version may check more.
package publishertest
