package setting_test

import (
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-go/tidemark/internal/sinks/setting"
	"github.com/tidemark-go/tidemark/pkg/publisher"
)

type config struct {
	Name    string   // not a setting
	Topic   string   `yaml:"topic"`
	Brokers []string `yaml:"brokers"`
}

type settings struct {
	config
	TLS    bool          `yaml:"tls"`
	Limit  int           `yaml:"limit"`
	Linger time.Duration `yaml:"linger"`
}

func read(t *testing.T, address string) (got settings, err error) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	err = setting.Read(publisher.Settings{URL: u, Decode: func(any) error { return nil }}, &got)
	return got, err
}

func TestParametersOfTheURLAreSettings(t *testing.T) {
	t.Parallel()
	got, err := read(t, "x://h?topic=a%20b&brokers=a:1,b:2&brokers=c:3&tls=true&limit=7&linger=5ms")
	if want := (settings{config{"", "a b", []string{"a:1", "b:2", "c:3"}}, true, 7, 5 * time.Millisecond}); err != nil ||
		!reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestWhatTheFileSaysCountsMore(t *testing.T) {
	t.Parallel()
	u, _ := url.Parse("x://h?limit=7&topic=a")
	got := settings{}
	err := setting.Read(publisher.Settings{URL: u, Decode: func(into any) error {
		into.(*settings).Limit = 8
		return nil
	}}, &got)
	if err != nil || got.Limit != 8 || got.Topic != "a" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestMistakesInTheURLAreReportedTogether(t *testing.T) {
	t.Parallel()
	_, err := read(t, "x://h?tls=maybe&limit=many&linger=5&lingr=5ms")
	if err == nil {
		t.Fatal("no mistake was reported")
	}
	for _, want := range []string{
		`tls is "maybe" in the URL: it must be true or false`, `limit is "many" in the URL: it must be a whole number`,
		`linger is "5" in the URL: it must be a length of time such as 500ms`,
		`the URL has a parameter "lingr": it may have topic, brokers, tls, limit, linger`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is missing in\n%v", want, err)
		}
	}
	if _, err := read(t, "x://h?topic=secret%zz"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

func TestTLSNamesTheFileThatIsWrong(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, s := range map[string]setting.TLS{
		"a client's certificate needs both": {Cert: "c.pem"}, "no such file": {CA: empty + "x"},
		empty + `", which holds no certificate`: {CA: empty}, `key "` + empty: {Cert: empty, Key: empty},
	} {
		if _, err := s.Config(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v", s, err)
		}
	}
	if config, err := (setting.TLS{}).Config(); config != nil || err != nil {
		t.Errorf("without settings: %v, %v", config, err)
	}
}
