// Command functions writes the migration that creates the functions of migrations/functions. Those
// files are the functions' only text for people; the goose command line needs it in a migration.
//
// "go generate ./migrations" runs it in the folder migrations.
package main

import (
	"fmt"
	"os"
)

const target = "00006_functions.sql"

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, "functions:", err)
		os.Exit(1)
	}
}

func write() error {
	text, err := migration(os.DirFS("functions"))
	if err != nil {
		return err
	}
	return os.WriteFile(target, []byte(text), 0o600)
}
