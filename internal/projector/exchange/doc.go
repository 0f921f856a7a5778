// Package exchange replaces tables by others of the same names, in one transaction. The new tables
// get what users attached to the old ones: indexes, constraints, defaults, settings, owners,
// grants, comments, policies, triggers and views. Types, routines, operators and all else that the
// projection made beside the tables move with them, with owners, grants and comments. A table that
// the old ones lack gets the default privileges of their schema.
//
// Readers of the tables wait for a few catalogue changes and then see the new ones. The package
// refuses what it cannot carry over ([BlockedError]), so nothing silently stays with the old tables
// or is lost. That is every dependent object that is neither part of the tables nor a view, such as
// materialized views, foreign keys of other tables, functions bound to the tables by body or
// argument, and publications. It also refuses columns, rules, statistics and rare settings that
// users added, and types that users changed. It knows nothing of projections, and owns no table.
package exchange
