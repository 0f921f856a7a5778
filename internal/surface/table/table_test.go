package table

import (
	"bytes"
	"testing"
	"time"
)

func TestAgeShowsTheTwoLargestUnits(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second:                      "0.0s",
		340 * time.Millisecond:            "0.3s",
		59 * time.Second:                  "59.0s",
		2*time.Minute + 5*time.Second:     "2m 5s",
		time.Hour + 59*time.Minute:        "1h 59m",
		49*time.Hour + 59*time.Minute + 1: "2d 1h",
	} {
		if got := Age(d); got != want {
			t.Errorf("Age(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestTablesAreAlignedByCharactersAndNotByBytes(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	page := &Page{Out: &out, Terminal: true}
	rows := [][]Cell{{Text("Åsa"), Number(7, Plain)}, {Text("Bo\x1b[2J"), Number(1234, Alarm)}}
	page.Table([]string{"NAME", "N"}, rows)
	if err := page.Err(); err != nil {
		t.Fatal(err)
	}
	const want = "NAME          N\nÅsa           7\nBo\\x1b[2J  1234\n"
	if out.String() != want {
		t.Errorf("got\n%q\nwant\n%q", out.String(), want)
	}
}
