package journal

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrInvalidEvent is matched by every [InvalidEventError]. Append answers with one before it talks to the database,
// and nothing is written.
var ErrInvalidEvent = errors.New("invalid event")

// InvalidEventError says which event of a call was refused and why. It never quotes a payload.
type InvalidEventError struct {
	Campaign string // the campaign of the call, as given
	Index    int    // the event's place in the call, from 0; -1 when the call itself is refused
	Type     string // the event's type, as given
	Field    string // the field at fault: "payload", "tags[3]", …
	Reason   string // what is wrong with it, the limit, and what to do
}

// Error names the event, the field, the reason and the remedy. Long values are shortened.
func (e *InvalidEventError) Error() string {
	var b strings.Builder
	if e.Index < 0 {
		fmt.Fprintf(&b, "append to campaign %s: ", shortened(e.Campaign))
	} else {
		fmt.Fprintf(&b, "events[%d] (%s) of campaign %s: ", e.Index, shortened(e.Type), shortened(e.Campaign))
	}
	b.WriteString(e.Field)
	b.WriteByte(' ')
	b.WriteString(e.Reason)
	return b.String()
}

// Is reports whether target is [ErrInvalidEvent].
func (e *InvalidEventError) Is(target error) bool { return target == ErrInvalidEvent }

// shortened quotes s for a message and cuts it to a readable length. Bytes that are no text come out escaped.
func shortened(s string) string {
	const most = 48
	if len(s) <= most {
		return strconv.Quote(s)
	}
	cut := most
	for cut > most-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%s… (%d bytes)", strconv.Quote(s[:cut]), len(s))
}
