package main

import (
	"os"
	"testing"
	"testing/fstest"
)

func TestTheMigrationIsWhatTheFilesMake(t *testing.T) {
	t.Parallel()
	want, err := migration(os.DirFS("../../functions"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../" + target)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("migrations/%s is not what migrations/functions makes: go generate ./migrations", target)
	}
}

func TestTheWayDownDropsTriggersThenEachFunctionByItsArguments(t *testing.T) {
	t.Parallel()
	text, err := migration(fstest.MapFS{
		"a.sql": {Data: []byte("CREATE OR REPLACE FUNCTION tidemark.f(p_a text,\n    p_b bigint DEFAULT NULL) RETURNS text …\n" +
			"CREATE OR REPLACE FUNCTION tidemark.f(p_a jsonb) RETURNS text …\n" +
			"CREATE OR REPLACE FUNCTION tidemark.g() RETURNS trigger …\n" +
			"CREATE CONSTRAINT TRIGGER t AFTER INSERT OR UPDATE OF x\n    ON tidemark.y …\n")},
		"locks.sql": {Data: []byte("CREATE OR REPLACE FUNCTION tidemark.first() RETURNS text …\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = header + `
-- functions/locks.sql
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION tidemark.first() RETURNS text …
-- +goose StatementEnd

-- functions/a.sql
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION tidemark.f(p_a text,
    p_b bigint DEFAULT NULL) RETURNS text …
CREATE OR REPLACE FUNCTION tidemark.f(p_a jsonb) RETURNS text …
CREATE OR REPLACE FUNCTION tidemark.g() RETURNS trigger …
CREATE CONSTRAINT TRIGGER t AFTER INSERT OR UPDATE OF x
    ON tidemark.y …
-- +goose StatementEnd
` + footer + `DROP TRIGGER t ON tidemark.y;
DROP FUNCTION
    tidemark.append_limits,
    tidemark.f(p_a jsonb),
    tidemark.f(p_a text, p_b bigint),
    tidemark.first,
    tidemark.g;
`
	if text != want {
		t.Errorf("the migration is\n%s\nwant\n%s", text, want)
	}
}
