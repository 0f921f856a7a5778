package archive_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/pkg/archive"
)

// lacking makes the database a copy that lacks the row of limits, and whose sequence is behind the
// position of the first archived event of a campaign.
func (s *shop) lacking(first string) {
	s.t.Helper()
	s.exec(`DO $$ BEGIN ALTER TABLE tidemark.limits DISABLE TRIGGER USER; DELETE FROM tidemark.limits;
		ALTER TABLE tidemark.limits ENABLE TRIGGER USER; END $$`)
	s.exec(`SELECT setval('tidemark.journal_position', $1::bigint - 1)`, first)
}

// TestARestoreOntoATakenPositionLeavesTheCampaign archives a campaign, and another one that gets the
// archived positions afterwards.
func TestARestoreOntoATakenPositionLeavesTheCampaign(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.closeCampaigns(0, "before") // its event keeps the positions below it known
	s.closeCampaigns(2, "oak", "ash", "elm")
	first := s.value(`SELECT min(position) FROM tidemark.journal WHERE campaign_id = 'oak'`)
	if r := s.archive(closed); r.Campaigns != 4 {
		t.Fatalf("archived %+v", r)
	}
	s.lacking(first)
	s.exec(`SELECT tidemark.append('new', '[{"type": "ordered"}, {"type": "ordered"}]')`)
	s.exec(`SELECT setval('tidemark.journal_position', 1000)`)

	const remedy = ": this database is a copy whose sequence was behind; run `tidemark copy repair`, and read " +
		"the campaign in the archive"
	done := s.restore(archive.RestoreRequest{All: true})
	want := fmt.Sprintf("position %s belongs to event 1 of campaign new", first) + remedy
	if len(done.Left) != 1 || done.Left[0] != (archive.Left{CampaignID: "oak", Reason: want}) || done.Campaigns != 3 {
		t.Errorf("the restore is %+v, want oak left: %s", done, want)
	}
	still := s.value(`SELECT string_agg(campaign_id, ' ') FROM tidemark.journal WHERE event_version = 0`)
	if still != "oak" {
		t.Errorf("archived are %q", still)
	}
	if n := s.value(`SELECT count(*) FROM tidemark.journal WHERE campaign_id = 'new'`); n != "2" {
		t.Errorf("the other campaign has %s events", n)
	}
	if n := s.value(`SELECT sum(campaigns) FROM tidemark.archives`); n != "1" {
		t.Errorf("the manifest has %s campaigns", n)
	}
}

// TestOfCampaignsWithTheSamePositionsOneIsRestored archives two of the same positions, restores them in
// one call, and archives on a copy that lacks the row of limits.
func TestOfCampaignsWithTheSamePositionsOneIsRestored(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.closeCampaigns(0, "before")
	s.closeCampaigns(2, "oak")
	first := s.value(`SELECT min(position) FROM tidemark.journal WHERE campaign_id = 'oak'`)
	lines := []string{s.lines("oak"), ""}
	s.archive(closed)
	s.lacking(first)
	s.exec(`SELECT tidemark.append('ash', '[{"type": "ordered"}, {"type": "ordered"}]')`)
	s.exec(`SELECT setval('tidemark.journal_position', 1000)`)
	s.exec(`SELECT tidemark.append('ash', '[{"type": "campaign_closed"}]')`)
	lines[1] = s.lines("ash")
	if r := s.archive(closed); r.Campaigns != 1 {
		t.Fatalf("archived %+v", r)
	}
	campaigns := []string{"oak", "ash"}
	left, err := s.call(`SELECT campaign_id || ': ' || reason FROM tidemark.restore($1, $2)`, campaigns, lines)
	if err != nil || len(left) != 1 ||
		!strings.HasPrefix(left[0], "ash: position "+first+" belongs to event 1 of campaign oak: ") {
		t.Errorf("left are %q, %v", left, err)
	}
	if n := s.value(`SELECT count(*) FROM tidemark.journal WHERE campaign_id = 'oak' AND event_version > 0`); n != "3" {
		t.Errorf("oak has %s events", n)
	}
}
