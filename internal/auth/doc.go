// Package auth identifies the senders of requests to the admin listener and their roles.
//
// A request identifies itself with a token, the cookie of a session, a JWT, or the headers of a
// trusted proxy. A token is sent as a bearer token, or as the password of basic authentication with
// the token's name as user. Tokens are random; the database stores only their SHA-256.
//
// An address that sends more than a few wrong credentials gets 429 until it has waited, without a
// query to the database. A valid token or session is accepted even then.
//
// The package owns tidemark.tokens and tidemark.sessions. It writes them and looks secrets up
// through the functions of migration 10. All of it is safe for concurrent use.
package auth
