package webhook

import (
	"net/url"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/webhook"
)

func TestAKindIsOpenedByURLOrBySettings(t *testing.T) {
	t.Parallel()
	a, b := webhook.NewSecret().Reveal(), webhook.NewSecret().Reveal()
	openKind := func(text, document string) (*sink, error) {
		settings := publisher.Settings{Publisher: "hook", Decode: func(into any) error {
			return yaml.UnmarshalWithOptions([]byte(document), into, yaml.Strict())
		}}
		if text != "" {
			u, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			settings.URL = u
		}
		s, err := Kind().Open(settings)
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = s.(*sink).Close() })
		return s.(*sink), nil
	}
	s, err := openKind("https://example.com/a?b=c#"+a+","+b, "{}")
	if err != nil {
		t.Fatal(err)
	}
	if s.to.String() != "https://example.com/a?b=c" || len(s.cfg.Secrets) != 2 || s.cfg.Secrets[1].Reveal() != b ||
		s.Name() != "hook" {
		t.Errorf("it is %s with %d secrets, named %s", s.to, len(s.cfg.Secrets), s.Name())
	}
	if s, err = openKind("http://example.com/#unsigned", "{}"); err != nil || !s.cfg.Unsigned {
		t.Errorf("unsigned: %v", err)
	}
	s, err = openKind("", "url: https://10.0.0.7/\nsecrets: ["+
		a+"]\nallow_networks: [10.0.0.0/8]\ntimeout: 3s\nheaders: {X-A: b}\nconcurrency: 2\nproxy: "+
		"http://10.0.0.1:3128")
	if err != nil || s.cfg.Timeout.String() != "3s" || s.cfg.Concurrency != 2 ||
		s.cfg.Headers["X-A"] != "b" {
		t.Errorf("settings: %v", err)
	}
	for document, want := range map[string]string{
		"url: https://example.com":                                            "there are no secrets",
		"url: https://example.com\nsecrets: [whsec_abc]":                      "secret 1: ",
		"url: https://example.com\nunsigned: true\nsecrets: [" + a + "]":      "leave one of them out",
		"url: https://example.com\nunsigned: true\nallow_networks: [private]": `allow_networks holds "private"`,
		"url: https://example.com\nunsigned: true\nfollow: true":              "follow",
	} {
		if _, err := openKind("", document); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", document, err, want)
		}
	}
}
