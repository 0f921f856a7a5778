// Package publishertest tells whether a sink keeps the promises that the relay relies on.
//
// [Run] holds it against these rules:
//
//   - what is published arrives, in the order of each campaign, also from several goroutines
//   - a batch that is sent again arrives under the same ids
//   - one id in several campaigns is as many events
//   - what a sink is lent it neither keeps nor changes
//   - an event that is refused is named, alone and as permanent; nothing after it in its campaign
//     arrives, and all other campaigns do
//   - a cancelled context, or its deadline, ends Publish soon, and as an error of the sink, not of
//     an event
//   - while the other side is down nothing is refused for good; when it is back, publishing goes on
//   - Close can be called twice, and Publish returns an error afterwards
//
// A rule that needs an ability of the other side is run where the [Target] has it. Run sinks against the
// real other side. Let TestMain verify with goleak that a closed sink leaves no goroutine behind.
package publishertest
