package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
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
