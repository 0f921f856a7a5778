// Package chaos takes the server and its connections away from workers under load, and compares
// what is left with the journal.
package chaos
