package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/tidemark-go/tidemark/pkg/event"
)

// The types of events. projections/tree.sql subscribes to the file_… types.
const (
	fileAdded       = "file_added"
	fileModified    = "file_modified"     // new content, perhaps also a new mode
	fileModeChanged = "file_mode_changed" // only the executable bit
	fileTypeChanged = "file_type_changed" // a file became a symlink, a submodule, …
	fileRenamed     = "file_renamed"      // within its campaign
	fileDeleted     = "file_deleted"
	historyRead     = "history_read" // records how far the journal holds the history; see [historyProgress]
)

// file is the payload of every file_… event. A deleted file has its last mode, object and kind.
type file struct {
	Path   string `json:"path"`   // see encodePath
	Mode   string `json:"mode"`   // as git writes it: 100644, 100755, 120000, 160000
	Object string `json:"object"` // the id of the blob, or of a submodule's commit
	Kind   string `json:"kind"`   // see kindOf
	Commit string `json:"commit"`
	From   string `json:"from,omitempty"` // old path of a renamed file; of file_added: its previous campaign
	To     string `json:"to,omitempty"`   // of file_deleted: the file's new place in another campaign
}

// kindOf returns the kind of file that a mode stands for.
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

// placed is an event and its campaign.
type placed struct {
	campaign string
	event    event.Event
}

// events returns the events of one change in a commit: one event, or two for a file that moved to
// another campaign. Order and identity are per campaign, so this move is a deletion in the old
// campaign and an addition in the new one. number is the commit's place in the sequence that was
// read.
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

// place returns the event. Its id is derived from its content, so appending it again after a lost
// answer to COMMIT adds nothing.
func (t translator) place(c commit, number int64, campaign, eventType string, f file) ([]placed, error) {
	payload, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encode %s %q: %w", eventType, f.Path, err)
	}
	return []placed{{campaign: campaign, event: event.Event{
		ID:         eventID(campaign, number, c.hash, eventType, f.Path),
		Type:       eventType,
		Actor:      actor(c.author),
		Payload:    payload,
		OccurredAt: c.time,
	}}}, nil
}

// eventID returns a UUIDv5 of an event's campaign, commit, type and path. The commit's number is
// part of it because a commit can be read twice: when a branch is left and returned to, its files
// change again.
func eventID(campaign string, number int64, commit, eventType, path string) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s\x00%d\x00%s\x00%s\x00%s", campaign, number, commit,
		eventType, path))
}

// actor shortens an author's name to valid text of at most 128 bytes, which the journal accepts.
func actor(author string) string {
	const enough = 128
	return strings.ToValidUTF8(author[:min(len(author), enough)], "")
}
