package nats

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// subject returns an event's subject.
func (s *sink) subject(e *publisher.Event) string {
	if !strings.Contains(s.cfg.Subject, "{") {
		return s.cfg.Subject
	}
	return strings.NewReplacer("{topic}", token(e.Topic), "{type}", token(e.Type), "{campaign}",
		token(e.CampaignID)).Replace(s.cfg.Subject)
}

// subjects returns a pattern that matches the subjects of all events.
func (s *sink) subjects() string {
	parts := strings.Split(s.cfg.Subject, ".")
	for i, part := range parts {
		if strings.Contains(part, "{") {
			parts[i] = "*"
		}
	}
	return strings.Join(parts, ".")
}

// token encodes a text as one token of a subject. Characters not allowed there become %2E and the like.
func token(text string) string {
	if text == "" {
		return "%"
	}
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case c <= ' ' || c == 0x7f || strings.IndexByte(".*>%", c) >= 0:
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func checkSubject(subject string) error {
	if subject == "" {
		return errors.New("subject is missing: name it as nats://host:4222/subject, or under subject")
	}
	bare := strings.NewReplacer("{topic}", "t", "{type}", "t", "{campaign}", "t").Replace(subject)
	if strings.ContainsAny(bare, " \t\r\n*>{}") || strings.Contains("."+bare+".", "..") {
		return fmt.Errorf("subject is %q: it is words with dots between them, without spaces, * and >, and may hold "+
			"{topic}, {type} and {campaign}", subject)
	}
	return nil
}
