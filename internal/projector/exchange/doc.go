// Package exchange puts tables in the place of others of the same names, in one transaction, with
// what users hang on those: indexes, constraints, defaults, settings, owners, grants, comments,
// policies, triggers, and views.
//
// Readers that name the tables wait for the length of a few changes to the catalogue and then see
// the new ones. What it cannot bring along it refuses ([BlockedError]), so that nothing goes on
// silently with the old tables or is lost: whatever the catalogue says stands on them and is neither
// a part of them nor a view, such as materialized views, foreign keys of other tables, functions
// whose bodies or arguments are bound to the tables, publications; and columns, rules, statistics
// and rare settings that users have added. It knows nothing of projections, and owns no table.
package exchange
