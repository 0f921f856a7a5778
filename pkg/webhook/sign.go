package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

// The headers of a signed request.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

const version = "v1,"

// Sign returns the webhook-signature of a body that is sent under id at a time, with one signature
// for each secret: while a secret is being replaced, sign with the old one and the new one. The id
// must not contain a dot. webhook-timestamp is at's Unix time.
func Sign(id string, at time.Time, body []byte, secrets ...Secret) string {
	var b strings.Builder
	for i, s := range secrets {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(version)
		b.WriteString(base64.StdEncoding.EncodeToString(s.sum(id, strconv.FormatInt(at.Unix(), 10), body)))
	}
	return b.String()
}

// sum is the HMAC of the signed content.
func (s Secret) sum(id, timestamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(id))
	mac.Write([]byte{'.'})
	mac.Write([]byte(timestamp))
	mac.Write([]byte{'.'})
	mac.Write(body)
	return mac.Sum(nil)
}
