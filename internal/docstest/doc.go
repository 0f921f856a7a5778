// Package docstest keeps the README and docs/ true: its tests compile or run every snippet in them,
// follow their links, and compare the tables of settings with what the worker says of itself.
//
// How a snippet is checked follows from its language:
//
//	go       it stands in a .go file of this repository, wrapped the same or not, which is compiled or run by other tests
//	sql      psql runs it on a migrated database of its own
//	         "sql duckdb" is run by a test of adapters/lake
//	python   a Python with psycopg runs it, likewise
//	js       Node with pg runs it, likewise
//	sh       each line is a make target, a program of ours with flags that it knows, or one of a few known commands
//	yaml     it parses, and so does json; what says what is published where is loaded as a worker would
//	text     it is a picture, or shown only; "text output" is what the snippet before it must print
//
// docs/tutorial/first-worker.md is done as a whole, step by step, from an empty folder (TestTutorial).
//
// Snippets of one page and language share the database and run in the order of the page.
package docstest
