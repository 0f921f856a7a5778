// Package broker is a broker for tests: a server that records events in the order of their arrival
// and can refuse them, and a sink that publishes to it over a connection that a proxy can disturb.
package broker
