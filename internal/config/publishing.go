package config

// Publishing says what is to be published where.
type Publishing struct {
	Publishers        string
	PublishURL        string
	PublishEventTypes string
	PublishFormat     string
}

// PublishingSettings binds them.
func PublishingSettings(s *Set, p *Publishing) {
	s.String(&p.Publishers, "publishers", "TIDEMARK_PUBLISHERS", "", "what to publish where, a YAML file")
	s.String(&p.PublishURL, "publish-url", "TIDEMARK_PUBLISH_URL", "", "instead of the file: where to publish all events")
	s.String(&p.PublishEventTypes, "publish-event-types", "TIDEMARK_PUBLISH_EVENT_TYPES", "",
		"with the URL: only these types, separated by commas")
	s.Choice(&p.PublishFormat, "publish-format", "TIDEMARK_PUBLISH_FORMAT", "with the URL: format of messages",
		"envelope", "cloudevents", "cloudevents_structured", "raw")
}
