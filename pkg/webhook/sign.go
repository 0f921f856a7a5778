package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of a signed request.
const (
	headerID        = "webhook-id"
	headerTimestamp = "webhook-timestamp"
	headerSignature = "webhook-signature"
)

const version = "v1,"

// Sign sets the headers of a request: webhook-id, webhook-timestamp (at's Unix time) and
// webhook-signature, with one signature for each secret. During a rotation sign with both secrets.
// Without secrets there is no webhook-signature. The id must not contain a dot.
func Sign(header http.Header, id string, at time.Time, body []byte, secrets ...Secret) {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	header.Set(headerID, id)
	header.Set(headerTimestamp, timestamp)
	if len(secrets) == 0 {
		return
	}
	var b strings.Builder
	for i, s := range secrets {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(version)
		b.WriteString(base64.StdEncoding.EncodeToString(s.sum(id, timestamp, body)))
	}
	header.Set(headerSignature, b.String())
}

// sum returns the HMAC of the signed content.
func (s Secret) sum(id, timestamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(id))
	mac.Write([]byte{'.'})
	mac.Write([]byte(timestamp))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return mac.Sum(nil)
}

const (
	secretPrefix = "whsec_"
	secretLeast  = 24 // bytes of a key, from the standard
	secretMost   = 64
)

// Secret is a shared key, masked when printed or logged. The zero value can neither sign nor verify.
type Secret struct{ key []byte }

// NewSecret returns a secret of 32 random bytes.
func NewSecret() Secret {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return Secret{key}
}

// ParseSecret parses whsec_ and base64 of 24 to 64 bytes. Its errors do not repeat the secret.
func ParseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(strings.TrimSpace(text), secretPrefix)
	if !ok {
		return Secret{},
			fmt.Errorf("the secret does not begin with %s: use it as it was issued, or make one with: echo %s$(openssl "+
				"rand -base64 32)", secretPrefix, secretPrefix)
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return Secret{}, fmt.Errorf("the secret is not padded base64 after %s: it may be cut off",
			secretPrefix)
	}
	if len(key) < secretLeast || len(key) > secretMost {
		return Secret{},
			fmt.Errorf("the secret has %d bytes, it must have %d to %d: make one with: echo %s$(openssl rand -base64 32)",
				len(key), secretLeast, secretMost, secretPrefix)
	}
	return Secret{key}, nil
}

// Reveal returns the secret in its external form.
func (s Secret) Reveal() string { return secretPrefix + base64.StdEncoding.EncodeToString(s.key) }

// IsZero reports whether it is the zero value.
func (s Secret) IsZero() bool { return len(s.key) == 0 }

// String returns a masked form.
func (s Secret) String() string { return secretPrefix + "…" }

// GoString is String, for %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue is String, for slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is String, so that JSON does not reveal the secret by accident.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
