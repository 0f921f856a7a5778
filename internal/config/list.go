package config

import (
	"net/url"
	"strings"

	"github.com/spf13/pflag"
)

// Setting is a setting as it may be shown: without passwords.
type Setting struct{ Name, Value, Usage string }

// List answers all settings by the names of their variables, in the order in which they were added.
// Of URLs it shows neither user nor password nor parameters, and a path only of a database. Call it
// after Finish.
func (s *Set) List() (list []Setting) {
	s.flags.VisitAll(func(f *pflag.Flag) {
		name, ok := s.env[f.Name]
		if !ok {
			return
		}
		text := f.Value.String()
		switch {
		case text == "":
		case strings.HasSuffix(name, "_URL"):
			text = place(text)
		case strings.HasSuffix(name, "_SECRET"):
			text = "(set, and not shown)"
		}
		list = append(list, Setting{Name: name, Value: text, Usage: strings.TrimSuffix(f.Usage, " ["+name+"]")})
	})
	return list
}

// place is where a URL leads, without what must not be seen.
func place(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" { // also a connection string of the form "host=… password=…"
		return "(set, and not shown)"
	}
	shown := &url.URL{Scheme: u.Scheme, Host: u.Host}
	if strings.HasPrefix(u.Scheme, "postgres") { // elsewhere the path may be the secret, as with a webhook
		shown.Path = u.Path
	}
	return shown.String()
}
