package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/pkg/journal"
)

// The types of events. projections/tree.sql subscribes to the file_… ones.
const (
	fileAdded       = "file_added"
	fileModified    = "file_modified"     // other content, perhaps another mode as well
	fileModeChanged = "file_mode_changed" // the executable bit alone
	fileTypeChanged = "file_type_changed" // a file became a symlink, a submodule, …
	fileRenamed     = "file_renamed"      // within its campaign
	fileDeleted     = "file_deleted"
	historyRead     = "history_read" // how far the journal holds the history; see [historyProgress]
)

// file is the payload of every file_… event. Of a deleted file, mode, object and kind are what they were last.
type file struct {
	Path   string `json:"path"`   // see encodePath
	Mode   string `json:"mode"`   // as git writes it: 100644, 100755, 120000, 160000
	Object string `json:"object"` // the id of the blob, or of a submodule's commit
	Kind   string `json:"kind"`   // see kindOf
	Commit string `json:"commit"`
	From   string `json:"from,omitempty"` // where a renamed file was; of file_added: a campaign of its own
	To     string `json:"to,omitempty"`   // of file_deleted: where the file is now, in another campaign
}

// kindOf says what a mode stands for.
func kindOf(mode string) string {
	switch mode {
	case "120000":
		return "symlink"
	case "160000":
		return "submodule"
	case "100755":
		return "executable"
	default:
		return "file"
	}
}

// translator turns changes into events.
type translator struct {
	campaigns campaigns
}

// placed is an event and the campaign it goes to.
type placed struct {
	campaign string
	event    journal.Event
}

// events are what a change of a commit means: one event, or two for a file that moved to another
// campaign. Order and identity are per campaign, so such a move is a deletion here and an addition
// there. number is the commit's place in the sequence that was read.
func (t translator) events(c commit, number int64, ch change) ([]placed, error) {
	after := file{
		Path: encodePath(ch.path), Mode: ch.newMode, Object: ch.newObject, Kind: kindOf(ch.newMode),
		Commit: c.hash,
	}
	home := t.campaigns.of(ch.path)
	switch ch.status {
	case 'A', 'C':
		return t.place(c, number, home, fileAdded, after)
	case 'M':
		if ch.oldObject == ch.newObject {
			return t.place(c, number, home, fileModeChanged, after)
		}
		return t.place(c, number, home, fileModified, after)
	case 'T':
		return t.place(c, number, home, fileTypeChanged, after)
	case 'D':
		before := file{Path: after.Path, Mode: ch.oldMode, Object: ch.oldObject, Kind: kindOf(ch.oldMode), Commit: c.hash}
		return t.place(c, number, home, fileDeleted, before)
	case 'R':
		after.From = encodePath(ch.from)
		old := t.campaigns.of(ch.from)
		if old == home {
			return t.place(c, number, home, fileRenamed, after)
		}
		before := file{
			Path: after.From, Mode: ch.oldMode, Object: ch.oldObject, Kind: kindOf(ch.oldMode), Commit: c.hash,
			To: after.Path,
		}
		deleted, err := t.place(c, number, old, fileDeleted, before)
		if err != nil {
			return nil, err
		}
		added, err := t.place(c, number, home, fileAdded, after)
		return append(deleted, added...), err
	default:
		return nil, fmt.Errorf("commit %s: git reports %q as %c, which a finished tree cannot hold", c.hash, ch.path,
			ch.status)
	}
}

// place makes the event. Its id follows from what it says, so that appending it again, after a lost
// answer to COMMIT, adds nothing.
func (t translator) place(c commit, number int64, campaign, eventType string, f file) ([]placed, error) {
	payload, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encode %s %q: %w", eventType, f.Path, err)
	}
	return []placed{{campaign: campaign, event: journal.Event{
		ID:         eventID(campaign, number, c.hash, eventType, f.Path),
		Type:       eventType,
		Actor:      actor(c.author),
		Payload:    payload,
		OccurredAt: c.time,
	}}}, nil
}

// eventID is a UUIDv5 of an event's campaign, commit, type and path. The commit's number is part of
// it because a commit can be read twice: when a branch is left and returned to, its files change
// again.
func eventID(campaign string, number int64, commit, eventType, path string) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s\x00%d\x00%s\x00%s\x00%s", campaign, number, commit,
		eventType, path))
}

// actor is an author's name as the journal takes it: text of moderate length.
func actor(author string) string {
	const enough = 128
	return strings.ToValidUTF8(author[:min(len(author), enough)], "")
}
