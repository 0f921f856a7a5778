// Package broker is a broker for tests: a server that remembers what arrives, in the order in which
// it arrives, and can be told to refuse, and a sink that publishes to it over a connection that a
// proxy can spoil.
package broker
