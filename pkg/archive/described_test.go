package archive_test

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/pkg/archive"
)

// TestTheManifestDescribesWhatIsArchived has an object written again, with more of its campaigns and with fewer.
// Readers, proofs and erasures look in no object that its row does not tell of.
func TestTheManifestDescribesWhatIsArchived(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`SELECT tidemark.append('early', '[{"type": "first"}, {"type": "ordered", "tags": ["early"]}]')`)
	s.closeCampaigns(2, "early", "c1", "c2")
	s.exec(`SELECT tidemark.append('late', '[{"type": "last"}, {"type": "ordered", "tags": ["late"]}]')`)
	s.closeCampaigns(3, "late")
	all := []string{"c1", "c2", "early", "late"}
	whole, some, before := s.described(all...), s.described("c1", "c2"), s.journal()
	for _, act := range []struct {
		what, want string
		do         func()
	}{
		{"by two at once", whole, func() { s.archiveTwiceAtOnce("early", "late") }},
		{"again, with fewer", some, func() {
			s.restore(archive.RestoreRequest{All: true})
			s.archiveWithout("early", "late")
		}},
		{"restored in part", s.described("c2"), func() { s.restoreOnly("c1") }},
	} {
		act.do()
		got := s.value(`SELECT concat_ws(' ', campaigns, events, removed, removed_hash, first_position, last_position,
			last_recorded, array(SELECT unnest(event_types) ORDER BY 1)) FROM tidemark.archives WHERE campaigns > 0`)
		if act.what == "restored in part" { // the bounds are those of before
			act.want = strings.Join(append(strings.Fields(act.want)[:4], strings.Fields(some)[4:]...), " ")
		}
		if got != act.want {
			t.Errorf("%s: the row has\n%s\nwant\n%s", act.what, got, act.want)
		}
		if n := s.value(`SELECT count(*) FROM tidemark.archives a, unnest($1::text[]) AS c (id)
			WHERE a.campaigns > 0 AND a.members @> ARRAY[hashtextextended(c.id, 0)]`, all); n != "4" {
			t.Errorf("%s: the row tells of lines of %s campaigns", act.what, n)
		}
	}
	s.restore(archive.RestoreRequest{All: true})
	if after := s.journal(); after != before {
		t.Errorf("the journal was\n%s\nand is\n%s", before, after)
	}
}

// described is what the row of an object with campaigns must have.
func (s *shop) described(campaigns ...string) string {
	s.t.Helper()
	return s.value(`SELECT concat_ws(' ', count(DISTINCT campaign_id), count(*), count(*) FILTER (WHERE gone),
			bit_xor(uuid_hash_extended(event_id, 0)) FILTER (WHERE gone), min(position), max(position), max(recorded_at),
			array_agg(DISTINCT event_type::text ORDER BY event_type::text))
		FROM (SELECT *, coalesce(tags, '{}') = '{}' AND seq < max(seq) OVER (PARTITION BY campaign_id) AS gone
			FROM tidemark.journal WHERE campaign_id = ANY ($1)) AS j`, campaigns)
}

// TestArchiveAndRestoreSeeWhatTheyLock: with an older snapshot they would not, and an append may be open.
func TestArchiveAndRestoreSeeWhatTheyLock(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.closeCampaigns(1, "oak", "ash")
	oak := s.lines("oak")
	const archives = `SELECT tidemark.archive('mine', sha256('x'), 1, '{ash}', '{x}', 'eve', 'a test')`
	restores := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SELECT tidemark.restore('{oak}', ARRAY[$1])`, oak)
		return err
	}
	s.archive(archive.Request{Campaigns: []string{"oak"}, By: "anna", Reason: "a test"})
	before := s.journal()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		for what, do := range map[string]func(ctx context.Context, tx pgx.Tx) error{
			"restore": restores,
			"archive": func(ctx context.Context, tx pgx.Tx) error { _, err := tx.Exec(ctx, archives); return err },
		} {
			if err := s.append(do, pgx.TxOptions{IsoLevel: level}); feed.SQLState(err) != "TM008" {
				t.Errorf("%s under %s: %v", what, level, err)
			}
		}
	}
	tx, err := s.Begin(t.Context()) // an append locks, then sees that the campaign is archived
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `SELECT tidemark.lock_campaign('oak')`); err != nil {
		t.Fatal(err)
	}
	left, err := s.call(`SELECT reason FROM tidemark.restore('{oak}', ARRAY[$1])`, oak)
	if err != nil || len(left) != 1 || left[0] != "an append to it is open" || s.journal() != before {
		t.Errorf("restored while an append is open: left because %q, %v", left, err)
	}
}

// losing is a store that takes what it gets, and gives back something else.
type losing struct {
	archive.Store
	give func(content []byte) ([]byte, error)
}

func (l losing) Get(ctx context.Context, name string, size int64) ([]byte, error) {
	content, err := l.Store.Get(ctx, name, size)
	if err != nil {
		return nil, err
	}
	return l.give(content)
}

// TestWhatCannotBeReadBackStays has stores that keep less than they say.
func TestWhatCannotBeReadBackStays(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.closeCampaigns(2, "oak", "ash")
	before := s.journal()
	for what, give := range map[string]func(content []byte) ([]byte, error){
		"nothing": func([]byte) ([]byte, error) { return nil, fs.ErrNotExist },
		"less":    func(content []byte) ([]byte, error) { return content[:len(content)-1], nil },
		"other":   func(content []byte) ([]byte, error) { content[len(content)/2] ^= 1; return content, nil },
		"more":    func([]byte) ([]byte, error) { return nil, fmt.Errorf("%w: it has another size", archive.ErrObject) },
	} {
		done, err := archive.Run(t.Context(), s.Pool, losing{s.store, give}, closed)
		if err == nil || done.Campaigns != 0 || s.journal() != before {
			t.Errorf("%s comes back: archived %+v, %v", what, done, err)
		}
		if text := fmt.Sprint(err); strings.Contains(text, "put it back") ||
			!strings.Contains(text, "Its campaigns are still in the journal: check the store") {
			t.Errorf("%s comes back, and the error is %s", what, text)
		}
	}
}
