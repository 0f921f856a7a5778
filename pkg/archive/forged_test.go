package archive_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-go/tidemark/internal/store/feed"
	"github.com/tidemark-go/tidemark/internal/store/rows"
	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// lines returns the lines that an archive of a campaign has.
func (s *shop) lines(campaign string) string {
	s.t.Helper()
	return s.value(`SELECT lines FROM tidemark.archive_lines(ARRAY[$1])`, campaign)
}

// call calls tidemark.restore or archive, and returns the reasons of the campaigns that it has left.
func (s *shop) call(sql string, args ...any) ([]string, error) {
	return rows.All(s.t.Context(), s.Pool, pgx.RowTo[string], "", sql, args...)
}

// TestARestorePutsBackWhatWasArchivedAndNothingElse calls the functions as an operator does who wants to
// change what has happened.
func TestARestorePutsBackWhatWasArchivedAndNothingElse(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`SELECT tidemark.append('oak', '[{"type": "paid", "tags": ["who=ann"], "payload": {"amount": 300}}]')`)
	s.closeCampaigns(2, "oak", "ash")
	lines, others, before := s.lines("oak"), s.lines("ash"), s.journal()
	all := strings.SplitAfter(strings.TrimSuffix(lines, "\n"), "\n")
	position := s.value(`SELECT position FROM tidemark.journal WHERE campaign_id = 'oak' ORDER BY seq DESC LIMIT 1`)
	s.archive(closed)
	stubs := s.journal()
	for name, forged := range map[string]struct{ lines, reason string }{
		"another campaign":    {others, "line 1 names campaign ash"},
		"an event of another": {all[0] + strings.Replace(all[1], `"oak"`, `"elm"`, 1) + all[2] + all[3] + "\n", "line 2 names campaign elm"},
		"the order":           {all[1] + all[0] + all[2] + all[3] + "\n", "line 1 has seq 2"},
		"a seq":               {strings.Replace(lines, `"seq":3`, `"seq":9`, 1), "line 3 has seq 9"},
		"a position":          {strings.Replace(lines, `"position":`+position, `"position":999`, 1), "line 4 has position 999, the event has " + position},
		"the id of an event with tags": {
			all[0][:len(`{"campaign_id":"oak","id":"`)] + "7" + all[0][len(`{"campaign_id":"oak","id":"`)+1:] + strings.Join(all[1:], "") + "\n",
			"line 1 has id 7",
		},
		"a position that the journal no longer has": {strings.Replace(lines, `"seq":2,"position":`, `"seq":2,"position":9`, 1), "their SHA-256 is "},
		"a payload":     {strings.Replace(lines, "300", "900", 1), "their SHA-256 is "},
		"a time":        {strings.Replace(lines, `"recorded_at":"2`, `"recorded_at":"1`, 1), "their SHA-256 is "},
		"one less":      {all[0] + all[1] + all[2], "there are 3 lines, 4 events were archived"},
		"one more":      {lines + all[3] + "\n", "line 5 has seq 4"},
		"an end":        {lines + "\n", "their SHA-256 is "},
		"nothing":       {"", "there are 0 lines"},
		"no JSON":       {all[0] + "{\n", "line 2 is not JSON"},
		"no event":      {"[]\n", "line 1 names campaign "},
		"a NUL":         {strings.Replace(lines, "300", `"\u0000"`, 1), "line 1 is not JSON"},
		"a large value": {strings.Replace(lines, "300", "1e999999", 1), "line 1 is not JSON"},
	} {
		left, err := s.call(`SELECT reason FROM tidemark.restore('{oak}', ARRAY[$1])`, forged.lines)
		if err != nil || len(left) != 1 || !strings.HasPrefix(left[0], "the lines are not those that were archived: "+forged.reason) {
			t.Errorf("%s: left because %q, %v; want %q", name, left, err, forged.reason)
		}
		if after := s.journal(); after != stubs {
			t.Fatalf("%s: the journal was\n%s\nand is\n%s", name, stubs, after)
		}
	}
	left, err := s.call(`SELECT reason FROM tidemark.restore('{oak,ash,none}', ARRAY[$1, $2, NULL])`, others, lines)
	if err != nil || len(left) != 3 || s.journal() != stubs {
		t.Errorf("lines of each other: left because %q, %v", left, err)
	}
	if left, err := s.call(`SELECT reason FROM tidemark.restore('{oak,ash}', ARRAY[$1, $2])`, lines, others); err != nil || len(left) > 0 {
		t.Errorf("left because %q, %v", left, err)
	}
	if after := s.journal(); after != before {
		t.Errorf("the journal was\n%s\nand is\n%s", before, after)
	}
}

// An operator names another object, or hashes of lines of his own.
func TestTheDatabaseTrustsNoHashOfTheCaller(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`SELECT tidemark.append('oak', '[{"type": "paid", "payload": {"amount": 300}}, {"type": "campaign_closed"}]')`)
	lines, before := s.lines("oak"), s.journal()
	forged := strings.Replace(lines, "300", "900", 1)
	hash := func(text string) []byte {
		sum := sha256.Sum256([]byte(text))
		return sum[:]
	}
	const run = `SELECT reason FROM tidemark.archive('mine', sha256('x'), 1, '{oak}', ARRAY[$1::bytea], 'eve', 'a test')`
	for name, of := range map[string][]byte{"others": hash(forged), "none": nil, "an empty one": {}} {
		if left, err := s.call(run, of); err != nil || !slices.Equal(left, []string{"it has changed since it was copied"}) {
			t.Errorf("%s: left because %q, %v", name, left, err)
		}
	}
	if after := s.journal(); after != before {
		t.Fatalf("the journal was\n%s\nand is\n%s", before, after)
	}
	if left, err := s.call(run, hash(lines)); err != nil || len(left) > 0 {
		t.Fatalf("left because %q, %v", left, err)
	}
	if left, err := s.call(`SELECT reason FROM tidemark.restore('{oak}', ARRAY[$1])`, forged); err != nil || len(left) != 1 {
		t.Errorf("left because %q, %v", left, err)
	}
	if left, err := s.call(`SELECT reason FROM tidemark.restore('{oak}', ARRAY[$1])`, lines); err != nil || len(left) > 0 || s.journal() != before {
		t.Errorf("left because %q, %v", left, err)
	}
}

func TestEachCampaignIsNamedOnceWithAValue(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.closeCampaigns(1, "oak", "ash")
	for _, call := range []string{
		`tidemark.archive('x', sha256('x'), 1, '{oak,oak}', '{a,b}', 'eve', 'a test')`,
		`tidemark.archive('x', sha256('x'), 1, '{oak,ash}', '{a}', 'eve', 'a test')`,
		`tidemark.archive('x', sha256('x'), 1, '{oak,NULL}', '{a,b}', 'eve', 'a test')`,
		`tidemark.archive('x', sha256('x'), 1, NULL, '{a,b}', 'eve', 'a test')`,
		`tidemark.archive('x', sha256('x'), 1, '{oak}', NULL, 'eve', 'a test')`,
		`tidemark.restore('{oak,oak}', '{a,b}')`, `tidemark.restore('{oak}', '{a,b}')`, `tidemark.restore('{NULL}', '{a}')`,
		`tidemark.restore(NULL, '{a}')`,
	} {
		if _, err := s.call(`SELECT reason FROM ` + call); feed.SQLState(err) != "22023" {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// TestCallsThatChangeTheJournalStandInTheLog calls the functions without the program, which has a record
// of its own.
func TestCallsThatChangeTheJournalStandInTheLog(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.closeCampaigns(1, "oak", "ash")
	oak, ash := s.lines("oak"), s.lines("ash")
	s.exec(`SELECT tidemark.archive('mine', sha256('x'), 1, '{oak,ash}', ARRAY[sha256(convert_to($1, 'UTF8')),
		sha256(convert_to($2, 'UTF8'))], 'eve', 'a test')`, oak, ash)
	s.exec(`SELECT tidemark.restore('{oak}', ARRAY[$1])`, oak)
	s.exec(`SELECT tidemark.restore('{ash}', ARRAY['x'])`) // changes nothing
	s.exec(`INSERT INTO tidemark.erasures (request, actor, reason, held_until)
		VALUES (sha256(''), 'eve', 'asked', now() + interval '1 hour')`)
	s.exec(`SELECT tidemark.erase(1, 1, 'oak', NULL, 500)`)
	s.exec(`SELECT tidemark.erase(1, 1, 'oak', NULL, 500)`) // changes nothing
	got := s.value(`SELECT string_agg(concat_ws(' ', actor = 'eve' OR actor = session_user, database_user = session_user, act,
		reason, campaign_id, detail), E'\n' ORDER BY link) FROM tidemark.operator_log`)
	if want := `t t events_archived a test {"events": 4, "object": "mine", "campaigns": ["oak", "ash"]}
t t events_restored oak {"events": 2, "objects": ["mine"], "campaigns": ["oak"]}
t t events_erased asked oak {"events": 2, "erasure": 1}`; got != want {
		t.Errorf("the log has\n%s\nwant\n%s", got, want)
	}
}

func TestNoSettingLetsTheJournalBeChanged(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.exec(`SELECT tidemark.append('oak', '[{"type": "paid", "tags": ["who=ann"]}, {"type": "campaign_closed"}]')`)
	s.closeCampaigns(1, "ash")
	s.archive(archive.Request{Campaigns: []string{"ash"}, By: "anna", Reason: "a test"})
	before := s.journal()
	for _, change := range []string{
		`DELETE FROM tidemark.journal`, `DELETE FROM tidemark.journal WHERE event_version = 0`, `TRUNCATE tidemark.journal`,
		`UPDATE tidemark.journal SET event_version = 0, payload = '{}'`, `UPDATE tidemark.journal SET payload = '{"a": 1}'`,
		`UPDATE tidemark.journal SET payload = '{}', metadata = '{"$erased": 1}'`, `DELETE FROM tidemark.event_tags`,
		`TRUNCATE tidemark.event_tags`,
	} {
		err := s.append(func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SET tidemark.archives = on; SET tidemark.erases = on; SET tidemark.erasures = on; `+change)
			return err
		}, pgx.TxOptions{})
		if feed.SQLState(err) != "TM009" {
			t.Errorf("%s: %v", change, err)
		}
	}
	if after := s.journal(); after != before {
		t.Errorf("the journal was\n%s\nand is\n%s", before, after)
	}
	if n := s.value(`SELECT count(*) FROM tidemark.journal_changes`); n != "0" {
		t.Errorf("%s transactions may still change the journal", n)
	}
}

// TestWhatIsNoObjectIsNamedAndHoldsNothingUp puts other things in the place of an object. A read of a FIFO
// without a writer never ends.
func TestWhatIsNoObjectIsNamedAndHoldsNothingUp(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(path string) error{
		"a FIFO":                 func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a folder":               func(path string) error { return os.Mkdir(path, 0o700) },
		"a link to a device":     func(path string) error { return os.Symlink("/dev/zero", path) },
		"an endless file":        func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40)) },
		"a file of another size": func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.closeCampaigns(1, "oak")
			s.archive(closed)
			object := s.value(`SELECT object FROM tidemark.archives`)
			path := filepath.Join(s.folder, object)
			if err := errors.Join(os.Remove(path), put(path)); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
			defer stop()
			reader := archive.NewReader(s.store, 0)
			_, restored := archive.Restore(ctx, s.Pool, s.store, archive.RestoreRequest{All: true})
			_, read := journal.Get(ctx, reader.Reading(s.Pool), "oak", 1)
			_, byPosition := s.all(reader.Reading(s.Pool), 0, some)
			for what, err := range map[string]error{"restore": restored, "read": read, "read by position": byPosition} {
				if err == nil || !strings.Contains(err.Error(), object) || name != "a link to a device" && !errors.Is(err, archive.ErrObject) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if done, err := archive.Run(ctx, s.Pool, s.store, closed); err != nil || done.Campaigns != 0 {
				t.Errorf("archived %+v, %v", done, err)
			}
		})
	}
}

// TestAnActDeletesOnlyItsKindOfEvent deletes events as the owner's functions do: an archive may delete no
// stub, and a restore no event.
func TestAnActDeletesOnlyItsKindOfEvent(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.closeCampaigns(2, "oak", "ash")
	s.archive(archive.Request{Campaigns: []string{"ash"}, By: "anna", Reason: "a test"})
	for statement, refused := range map[string]bool{
		"SELECT tidemark.begin_change('archive'); DELETE FROM tidemark.journal WHERE campaign_id = 'oak'":            false,
		"SELECT tidemark.begin_change('archive'); DELETE FROM tidemark.journal":                                      true,
		"SELECT tidemark.begin_change('restore'); DELETE FROM tidemark.journal WHERE campaign_id = 'ash'":            false,
		"SELECT tidemark.begin_change('restore'); DELETE FROM tidemark.journal":                                      true,
		"SELECT tidemark.begin_change('erase'); DELETE FROM tidemark.journal WHERE campaign_id = 'oak'":              true,
		"SELECT tidemark.begin_change('archive'), tidemark.end_change(); DELETE FROM tidemark.journal WHERE seq = 1": true,
		"DELETE FROM tidemark.journal WHERE false":                                                                   true,
	} {
		tx, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = tx.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol)
		if got := feed.SQLState(err) == "TM009"; got != refused || !refused && err != nil {
			t.Errorf("%s: %v", statement, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
