package command

import (
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/internal/surface/cli"
)

// A key that does not open is found by the doctor, and deleted by its id. It cannot come back.
func TestAKeyIsDeletedByItsID(t *testing.T) {
	t.Parallel()
	url := database(t, "failed.sql", "keys.sql")
	const id, gone = "01a21831-0aaf-7001-9512-0e2cf06179e0", "01a21831-0aaf-7001-9512-0e2cf06179e1"
	change(t, url, `UPDATE tidemark.failed SET error_code = 'key', error_message = 'key `+id+
		` does not open with the wrapping key "a"' WHERE campaign_id = 'oak';
		INSERT INTO tidemark.parked (topic, publisher, campaign_id, seq, holds, position, status, error_message)
			VALUES ('t', 'p', 'fir', 1, true, 1, 'parked', 'key `+id+` does not open with the wrapping key "a"');
		SELECT tidemark.append('ash', '[{"type": "mailed", "payload": {"mail": {"$sealed": "q83v", "key": "`+id+`"}}}]')`)
	counts := func(want string) {
		t.Helper()
		var got string
		if err := poolOf(t, url).QueryRow(t.Context(), `SELECT concat_ws(' ', (SELECT count(*) FROM tidemark.keys),
			(SELECT count(*) FROM tidemark.deleted_keys),
			(SELECT count(*) FROM tidemark.operator_log WHERE act = 'key_deleted' AND actor <> '' AND reason = 'garbage'
				AND way = 'cli'))`).Scan(&got); err != nil || got != want {
			t.Errorf("keys, deleted ones and records are %s, %v, want %s", got, err, want)
		}
	}
	for _, tt := range []struct {
		args string
		code int
		want []string
	}{
		{"doctor", cli.ExitFailed, []string{"keys", id + " (2 failed campaigns, 1 parked events, 0 readers held)"}},
		{"keys delete", cli.ExitUsage, []string{"ID"}},
		{"keys delete oak", cli.ExitUsage, []string{"it is no UUID"}},
		{"keys delete " + gone + " --reason garbage --yes", cli.ExitFailed, []string{"no such key"}},
		{"keys delete " + gone + " --dry-run", cli.ExitFailed, []string{"no such key"}},
		{"keys delete " + id + " --dry-run", cli.ExitOK, []string{
			`wrapped by "a"`, "1 have it", "2 failed campaigns and 1 parked event wait", "ash, fir, oak",
		}},
		{"keys delete " + id + " --yes", cli.ExitUsage, []string{"reason"}},
	} {
		got := execute(t, url, false, tt.args)
		for _, want := range tt.want {
			if got.code != tt.code || !strings.Contains(got.out+got.err, want) {
				t.Errorf("%s: exit code %d:\n%s%s\nwant %d and %q", tt.args, got.code, got.out, got.err, tt.code, want)
			}
		}
	}
	counts("1 0 0")
	got := execute(t, url, false, "keys delete "+strings.ToUpper(id)+" --yes --reason garbage")
	if got.code != cli.ExitOK {
		t.Errorf("it is not deleted: %s%s", got.out, got.err)
	}
	counts("0 1 1")
	change(t, url, `SELECT FROM tidemark.subject_keys(jsonb_build_array(jsonb_build_object(
		'subject', encode(sha256('eve'), 'hex'), 'id', '`+id+`', 'wrapped', encode(sha256('x'), 'base64'), 'wrapped_by', 'a')));
		INSERT INTO tidemark.keys (id, subject, wrapped, wrapped_by) VALUES ('`+id+`', sha256('x'), sha256('x'), 'a')`)
	counts("0 1 1")
	got = execute(t, url, false, "keys delete "+id+" --yes --reason again")
	if got.code != cli.ExitFailed || !strings.Contains(got.err, "was deleted at") {
		t.Errorf("deleted again: exit code %d: %s", got.code, got.err)
	}
}
