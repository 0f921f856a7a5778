// Package table writes what was read for a person, or a script: cells, tables, facts and pages of them. On a terminal
// tables are aligned, elsewhere their lines are tab-separated. Nothing that is written moves the cursor.
package table
