package redis_test

import (
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/tidemark-go/tidemark/pkg/publisher"
	"github.com/tidemark-go/tidemark/pkg/sink/redis"
	"github.com/tidemark-go/tidemark/test/support/settingtest"
)

func settings(t *testing.T, address string) publisher.Settings {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return publisher.Settings{Publisher: "p", URL: u, Logger: slog.New(slog.DiscardHandler), Decode: func(any) error {
		return nil
	}}
}

func TestAURLIsEnough(t *testing.T) {
	t.Parallel()
	_, files := settingtest.Certificate(t)
	b := start(t, "--tls-port", "0", "--tls-cert-file", files.Cert, "--tls-key-file", files.Key, "--tls-ca-cert-file",
		files.Cert, "--tls-auth-clients", "no")
	b.do("acl", "setuser", "anna", "on", ">p@ss", "~*", "+@all")
	for _, test := range []struct {
		name, address string
		tls           bool
	}{
		{"plain", "redis://anna:p%40ss@" + b.address() + "/3?stream=of.{campaign}&max_length=9", false},
		{
			"secured", "rediss://anna:p%40ss@" + b.address() + "/3?stream=of.{campaign}&ca=" + url.QueryEscape(files.Cert),
			true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.tls { // the same port, from now on
				b.do("config", "set", "port", "0", "tls-port", strings.TrimPrefix(b.Options().Addr, "127.0.0.1:"))
			}
			sink, err := redis.Kind().Open(settings(t, test.address))
			if err != nil {
				t.Fatal(err)
			}
			s := sink.(*redis.Sink)
			defer func() { _ = s.Close() }()
			publish(t, s, event(test.name, 1, 1))
			if err := s.Healthy(t.Context()); err != nil || s.Name() != "p" {
				t.Errorf("%s: %v", s.Name(), err)
			}
		})
	}
	b.do("select", "3") // on the connection from before
	if ids, _ := b.entries("of.plain"); len(ids) != 1 {
		t.Errorf("the stream has %s", ids)
	}
}

func TestSettingsThatAreWrongAreNamedWithTheRemedy(t *testing.T) {
	t.Parallel()
	for address, wants := range map[string][]string{
		"redis:":                                 {"servers are missing: name at least one as host:port"},
		"redis://h:0":                            {`servers holds "h:0": write host:port`},
		"redis://h/events":                       {`the URL's path is "events": it is the number of a database`, "?stream="},
		"redis://h/?stream=a.{seq}":              {`stream is "a.{seq}": it is a key`},
		"redis://h,i/2":                          {"database is 2: it is 0 or more, and 0 in a cluster"},
		"redis://u@h":                            {`user is "u" and password is missing`},
		"redis://h?max_length=-1":                {"max_length is -1"},
		"redis://h?max_message_bytes=1000000000": {"max_message_bytes is 1000000000: it must be from 1 to 268435456"},
		"redis://h?connect_timeout=2h":           {"connect_timeout is 2h0m0s: it must be from 0 to 1m0s"},
		"redis://h?min_replicas=-1":              {"min_replicas is -1"},
		"redis://h?replica_timeout=1m":           {"replica_timeout is 1m0s: it must be from 1ms to 5s"},
		"redis://h?key=/no/such":                 {"a client's certificate needs both"},
		"redis://h?streams=b&cluster=maybe": {
			`the URL has a parameter "streams": it may have servers, cluster`,
			`cluster is "maybe" in the URL: it must be true or false`,
		},
	} {
		_, err := redis.Kind().Open(settings(t, address))
		for _, want := range wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is missing in\n%v", address, want, err)
			}
		}
	}
}
