package sqlfile

import (
	"testing"
	"testing/fstest"
)

func TestTheHashIsOfStatementsAndNotOfTheirText(t *testing.T) {
	t.Parallel()
	const tables = "-- projection: p\n-- version: 1\nCREATE TABLE p (campaign_id text PRIMARY KEY, n int);\n"
	hash := func(text string) string {
		t.Helper()
		f, err := loadFile(fstest.MapFS{"p.sql": {Data: []byte(text)}}, "p.sql")
		if err != nil {
			t.Fatal(err)
		}
		return f.StatementsHash()
	}
	first := hash(tables + "-- on: a, b\nUPDATE p SET n = 1;\n-- on: c\nDELETE FROM p;")
	for name, same := range map[string]string{
		"comments":          tables + "-- on: a, b\n-- one\nUPDATE p /* two */ SET n\n=1\n;\n-- on: c\nDELETE FROM p",
		"order of handlers": tables + "-- on: c\nDELETE FROM p;\n-- on: b\nUPDATE p SET n = 1;\n-- on: a\nUPDATE p SET n = 1;",
		"tables":            tables + "CREATE INDEX ON p (n);\n-- on: a, b\nUPDATE p SET n = 1;\n-- on: c\nDELETE FROM p;",
	} {
		if hash(same) != first {
			t.Errorf("%s change the hash", name)
		}
	}
	for name, other := range map[string]string{
		"a number":    tables + "-- on: a, b\nUPDATE p SET n = 2;\n-- on: c\nDELETE FROM p;",
		"a type":      tables + "-- on: a\nUPDATE p SET n = 1;\n-- on: c\nDELETE FROM p;",
		"a statement": tables + "-- on: a, b\nUPDATE p SET n = 1; UPDATE p SET n = 1;\n-- on: c\nDELETE FROM p;",
		"a string":    tables + "-- on: a, b\nUPDATE p SET n = 1 WHERE campaign_id <> ' -- ';\n-- on: c\nDELETE FROM p;",
	} {
		if hash(other) == first {
			t.Errorf("%s does not change the hash", name)
		}
	}
}
