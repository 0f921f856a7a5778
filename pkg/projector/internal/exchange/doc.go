// Package exchange puts tables in the place of others of the same names, in one transaction, with all that users have hung on those: indexes, constraints, grants, comments,
// policies, triggers, and views.
//
// Readers that name the tables wait for the length of a few changes to the catalogue and then see the new ones. What it cannot bring along it refuses ([BlockedError]), so that nothing
// goes on silently with the old tables: materialized views, foreign keys of other tables, functions whose bodies are bound to the tables. Publications of logical replication keep the old
// tables. It knows nothing of projections, and owns no table.
package exchange
