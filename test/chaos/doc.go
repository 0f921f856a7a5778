// Package chaos cuts workers off from the server and their connections under load, then compares
// the read models with the journal.
package chaos
