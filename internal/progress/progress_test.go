package progress

import (
	"bytes"
	"testing"
	"time"
)

func TestMeter(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.Unix(0, 0)
	m := newMeter(&out, "commits", 4000, func() time.Time { return now })
	m.Set(1, 1) // too early for a line
	now = now.Add(10 * time.Second)
	m.Set(1000, 25000)
	m.Note("beware")
	now = now.Add(5 * time.Second)
	m.Set(4000, 1234567)
	m.Done()
	want := "1,000 of 4,000 commits (25 %), 25,000 events, 2,500/s, 30s left\n" +
		"beware\n" +
		"4,000 commits, 1,234,567 events, 82,304/s in 15s\n"
	if out.String() != want {
		t.Errorf("wrote\n%s\nwant\n%s", &out, want)
	}
}

func TestAMeterWithoutEventsShowsUnits(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.Unix(0, 0)
	m := newMeter(&out, "pairs", 4000, func() time.Time { return now })
	now = now.Add(10 * time.Second)
	m.Set(1000, Unknown)
	if want := "1,000 of 4,000 pairs (25 %), 100/s, 30s left\n"; out.String() != want {
		t.Errorf("wrote %q, want %q", out.String(), want)
	}
}
