// Package auth says who sends a request to the admin listener, and what they may do.
//
// A request is known by a token (as a bearer token, or as the password of basic authentication whose user is the token's name), by the cookie of a browser that has logged
// in with one, or by the headers of a proxy in a network that the configuration trusts. Tokens are random; only their SHA-256 is kept, so the database gives none away.
//
// What guesses: an address that sends wrong credentials is answered 429 after a few, without a look at the database, until it has waited. Credentials that were right within the hour are looked at all the same.
//
// The package owns tidemark.tokens and tidemark.sessions. All of it is safe for concurrent use.
package auth
