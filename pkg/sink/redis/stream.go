package redis

import (
	"fmt"
	"strings"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// streamOf is where an event goes.
func streamOf(template string, e *publisher.Event) string {
	if !strings.Contains(template, "{") {
		return template
	}
	return strings.NewReplacer("{topic}", escape(e.Topic), "{type}", escape(e.Type), "{campaign}",
		escape(e.CampaignID)).Replace(template)
}

// escape keeps braces out of the names of streams, since a cluster looks for its slot between them.
func escape(text string) string {
	if !strings.ContainsAny(text, "{}%") {
		return text
	}
	return strings.NewReplacer("{", "%7B", "}", "%7D", "%", "%25").Replace(text)
}

// keys are those that the script uses for a stream. In a cluster they are in one slot.
func keys(stream string) []string {
	return []string{stream, "{" + stream + "}:late", "{" + stream + "}:late:before"}
}

// divides tells whether a topic's events may go to several streams.
func divides(template string) bool {
	return strings.Contains(template, "{type}") || strings.Contains(template, "{campaign}")
}

func checkStream(template string) error {
	bare := strings.NewReplacer("{topic}", "", "{type}", "", "{campaign}", "").Replace(template)
	if strings.ContainsAny(bare, "{}") {
		return fmt.Errorf("stream is %q: it is a key, which may hold {topic}, {type} and {campaign}, and no other braces",
			template)
	}
	return nil
}
