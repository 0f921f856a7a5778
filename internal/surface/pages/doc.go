// Package pages renders the pages of the admin listener: problems and remedies, campaigns and their
// events, failures, publishers, projections, workers.
//
// html/template renders them on the server. They read from the packages that own the tables and act
// only through internal/admin. One stylesheet and one script are embedded; without the script only
// live updates are missing. The cost of a page does not depend on the size of the tables. Foreign
// text is shown as text: invisible characters appear as their names.
//
// The package owns no table. All of it is safe for concurrent use.
package pages
