// Package exchange puts tables in the place of others of the same names, in one transaction, with
// all that users have hung on those: indexes, constraints, defaults, settings, grants, comments,
// statistics, policies, triggers, rules, and views.
//
// Readers that name the tables wait for the length of a few changes to the catalogue and then see
// the new ones. What it cannot bring along it refuses ([BlockedError]), so that nothing goes on
// silently with the old tables: whatever the catalogue says stands on them and is neither a part of
// them nor a view or a rule, such as materialized views, foreign keys of other tables, functions
// whose bodies or arguments are bound to the tables, publications; and columns that users have
// added. It knows nothing of projections, and owns no table.
package exchange
