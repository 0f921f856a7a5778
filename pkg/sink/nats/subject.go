package nats

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// subject is where an event goes.
func (s *sink) subject(e *publisher.Event) string {
	if !strings.Contains(s.cfg.Subject, "{") {
		return s.cfg.Subject
	}
	return strings.NewReplacer("{topic}", token(e.Topic), "{type}", token(e.Type), "{campaign}",
		token(e.CampaignID)).Replace(s.cfg.Subject)
}

// subjects is what all events' subjects match.
func (s *sink) subjects() string {
	parts := strings.Split(s.cfg.Subject, ".")
	for i, part := range parts {
		if strings.Contains(part, "{") {
			parts[i] = "*"
		}
	}
	return strings.Join(parts, ".")
}

// token writes a text as one part of a subject: what may not be in it, as %2E.
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
