package archive_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/pkg/archive"
)

// TestOnlyCampaignsThatAreClosedForSoLongAreArchived has campaigns that were closed at other times, and that go on.
func TestOnlyCampaignsThatAreClosedForSoLongAreArchived(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.closeCampaigns(1, "long closed", "reopened", "just closed")
	s.exec(`SELECT tidemark.append('lost', '[{"type": "ordered"}, {"type": "campaign_lost"}]')`)
	s.exec(`SELECT tidemark.append('open', '[{"type": "campaign_closed"}, {"type": "ordered"}]')`)
	s.exec(`BEGIN; SET LOCAL session_replication_role = replica;
		UPDATE tidemark.journal SET recorded_at = recorded_at - interval '91 d' WHERE campaign_id <> 'just closed'; COMMIT`)
	s.exec(`SELECT tidemark.append('reopened', '[{"type": "ordered"}]')`)
	for _, want := range []struct {
		types    []string
		archived string
	}{
		{[]string{"campaign_closed"}, "long closed"},
		{[]string{"campaign_closed", "campaign_lost"}, "long closed, lost"},
	} {
		r := closed
		r.Types, r.ClosedFor = want.types, 90*24*time.Hour
		found, err := archive.Count(t.Context(), s.Pool, r)
		if done := s.archive(r); err != nil || done.Campaigns != 1 || done.LeftOut != 0 || found.Campaigns != 1 {
			t.Errorf("counted %+v, archived %+v, %v, want one campaign each", found, done, err)
		}
		if got := s.value(`SELECT string_agg(campaign_id, ', ' ORDER BY campaign_id) FROM tidemark.journal
			WHERE event_version = 0`); got != want.archived {
			t.Errorf("archived %q, want %q", got, want.archived)
		}
	}
}

// TestAnObjectHasItsHashInItsNameAndAManifestBeside reads both without the database.
func TestAnObjectHasItsHashInItsNameAndAManifestBeside(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.closeCampaigns(2, "oak", "ash")
	s.archive(closed)
	name := s.value(`SELECT object FROM tidemark.archives`)
	content, err := os.ReadFile(filepath.Join(s.folder, name))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	hash := hex.EncodeToString(sum[:])
	if short := strings.TrimSuffix(strings.TrimPrefix(name, "events-"), ".ndjson.gz"); len(short) < 32 ||
		!strings.HasPrefix(hash, short) {
		t.Errorf("the object is named %s, its hash is %s", name, hash)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	lines, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]string{}
	for line := range bytes.Lines(lines) {
		var event struct {
			CampaignID string `json:"campaign_id"`
		}
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatal(err)
		}
		of[event.CampaignID] += string(line)
	}
	for id, lines := range of {
		sum := sha256.Sum256([]byte(lines))
		of[id] = hex.EncodeToString(sum[:])
	}
	var manifest archive.Manifest
	written, err := os.ReadFile(filepath.Join(s.folder, name+".manifest.json"))
	if err == nil {
		err = json.Unmarshal(written, &manifest)
	}
	if err != nil || manifest.Object != name || manifest.SHA256 != hash || manifest.Bytes != len(content) ||
		len(of) != 2 || !maps.Equal(manifest.Campaigns, of) {
		t.Errorf("the manifest is %+v, %v, want the campaigns %v", manifest, err, of)
	}
}

// TestARunKeepsToItsRate has three objects, of 1000 events and of the rest.
func TestARunKeepsToItsRate(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, letter := range []string{"a", "b"} {
		s.exec(`SELECT tidemark.append($1 || n, '[{"type": "ordered"}, {"type": "campaign_closed"}]')
			FROM generate_series(1, 550) AS n`, letter)
	}
	const rate = 2000
	r := closed
	r.Rate = rate
	began := time.Now()
	if done := s.archive(r); done.Events != 2200 || done.Objects != 3 || time.Since(began) < time.Second {
		t.Errorf("archived %+v in %s: the last object is due after 2000 events", done, time.Since(began))
	}
	began = time.Now()
	done := s.restore(archive.RestoreRequest{All: true, Rate: rate})
	if done.Events != 2200 || time.Since(began) < 600*time.Millisecond {
		t.Errorf("restored %+v in %s: the last object is due after 1200 events", done, time.Since(began))
	}
}
