// Package auth says who sends a request to the admin listener, and what they may do.
//
// A request is known by a token (as a bearer token, or as the password of basic authentication
// whose user is the token's name), by the cookie of a browser that has logged in with one, or by
// the headers of a proxy in a network that the configuration trusts. Tokens are random; only their
// SHA-256 is kept, so the database gives none away.
//
// An address that sends wrong credentials is answered 429 after a few, without a look at the
// database, until it has waited. A secret of a token or a session that holds is let in all the same.
//
// The package owns tidemark.tokens and tidemark.sessions, which it reaches by the functions of
// migration 10. All of it is safe for concurrent use.
package auth
