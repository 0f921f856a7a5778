package main

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// first are the files that bodies in others need when they are created, in this order. The others
// follow by name.
var first = []string{"event_checks.sql", "locks.sql", "erasure_hashes.sql"} //nolint:gochecknoglobals // a constant

const (
	header = `-- +goose Up
SELECT pg_catalog.set_config('tidemark.path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
SET LOCAL client_encoding = 'UTF8';

-- Code generated from migrations/functions/*.sql by "go generate ./migrations". DO NOT EDIT.
`
	footer = `
SELECT set_config('search_path', current_setting('tidemark.path'), true);

-- +goose Down
`
	// made is the function that apply_limits creates, and replaces with each change of limits.
	made = "tidemark.append_limits"
)

var (
	trigger  = regexp.MustCompile(`(?m)^CREATE (?:OR REPLACE |CONSTRAINT )?TRIGGER (\w+) [^;]*?\sON (tidemark\.\w+)`)
	function = regexp.MustCompile(`(?m)^CREATE OR REPLACE FUNCTION (tidemark\.\w+)\(([^)]*)\)`)
	preset   = regexp.MustCompile(` DEFAULT [^,]+`)
)

// migration returns the migration that creates the functions of a folder with their triggers, and
// drops them on its way down.
func migration(folder fs.FS) (string, error) {
	names, err := fs.Glob(folder, "*.sql")
	if err != nil {
		return "", err
	}
	slices.SortFunc(names, byPlace)
	var up strings.Builder
	for _, name := range names {
		content, err := fs.ReadFile(folder, name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&up, "\n-- functions/%s\n-- +goose StatementBegin\n%s-- +goose StatementEnd\n", name, content)
	}
	return header + up.String() + footer + down(up.String()), nil
}

func byPlace(a, b string) int {
	placeA, placeB := slices.Index(first, a), slices.Index(first, b)
	switch {
	case placeA >= 0 && placeB >= 0:
		return placeA - placeB
	case placeA >= 0:
		return -1
	case placeB >= 0:
		return 1
	}
	return strings.Compare(a, b)
}

// down drops all functions in one statement: some need each other.
func down(up string) string {
	var text strings.Builder
	for _, m := range trigger.FindAllStringSubmatch(up, -1) {
		fmt.Fprintf(&text, "DROP TRIGGER %s ON %s;\n", m[1], m[2])
	}
	functions := []string{made}
	all := function.FindAllStringSubmatch(up, -1)
	namesakes := map[string]int{}
	for _, m := range all {
		namesakes[m[1]]++
	}
	for _, m := range all {
		if namesakes[m[1]] > 1 {
			m[1] += "(" + strings.Join(strings.Fields(preset.ReplaceAllString(m[2], "")), " ") + ")"
		}
		functions = append(functions, m[1])
	}
	slices.Sort(functions)
	fmt.Fprintf(&text, "DROP FUNCTION\n    %s;\n", strings.Join(functions, ",\n    "))
	return text.String()
}
