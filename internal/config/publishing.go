package config

// Publishing says what is to be published where.
type Publishing struct {
	Publishers string
	PublishURL string
}

// PublishingSettings binds them.
func PublishingSettings(s *Set, p *Publishing) {
	s.String(&p.Publishers, "publishers", "TIDEMARK_PUBLISHERS", "", "what to publish where, a YAML file")
	s.String(&p.PublishURL, "publish-url", "TIDEMARK_PUBLISH_URL", "", "instead of the file: where to publish all events")
}
