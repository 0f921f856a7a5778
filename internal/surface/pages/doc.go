// Package pages draws the pages of the admin listener: what is wrong and what to do, campaigns and
// their events, what failed, publishers, projections, workers.
//
// Pages are drawn by html/template on the server from what the packages answer that own the tables,
// and act through internal/admin alone. One stylesheet and one script are embedded; without the
// script everything works but liveness. Every page costs the same however much is in the tables.
// Texts of others are shown as text: what cannot be seen stands there by its name.
//
// The package owns no table. All of it is safe for concurrent use.
package pages
