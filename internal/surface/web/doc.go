// Package web is the admin listener: the pages, the JSON API under /api/v1/, and event streams.
//
// It listens on loopback by default. It refuses any other address while there are no credentials to
// log in with. It has its own few connections with a statement timeout, so that it takes no
// connection and little time from a worker. Requests are limited in size and time. Cross-site requests
// from browsers are refused, and pages load nothing from other servers.
package web
