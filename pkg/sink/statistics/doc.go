// Package statistics is a sink that counts events by type and by the prefix of their campaign, for
// trying out: how much would a topic publish, and what?
//
// What was counted since is logged every so often while there is something, and when the sink is
// closed. Deliveries are counted: an event that is sent again counts again. What there is beyond 1,000
// pairs of type and prefix is counted as "other", so that it never takes much memory or many lines.
package statistics
