// Package failover takes committed events from a database while programs read it: by a crash, a failover,
// and backups that are put back. Every reader of the journal goes on with the events that the database
// has: those that were kept, and the new ones. A restart loses nothing, and readers see no difference.
package failover
