// Package web is the admin listener: the pages, the JSON API under /api/v1/, and event streams.
//
// It listens on loopback unless told otherwise, and refuses any other address while no user could
// log in. It has a few connections of its own with a statement timeout, so that nothing a person
// looks at takes a connection or much time from a worker. Requests are bounded in size and time,
// those that another site had a browser send are refused, and pages can load nothing from
// elsewhere.
package web
