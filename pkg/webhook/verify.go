package webhook

import (
	"cmp"
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// DefaultTolerance is the default distance between a request's timestamp and the clock: 5 minutes.
const DefaultTolerance = 5 * time.Minute

// Errors of [Verify]. Respond to all of them with 401 and nothing else, so that a forger learns nothing.
var (
	// ErrUnsigned: a header is missing, repeated, or malformed.
	ErrUnsigned = errors.New("not a signed webhook")
	// ErrSignature: no signature matches a secret. Body, id or timestamp was changed, or the secret differs.
	ErrSignature = errors.New("no signature matches")
	// ErrTimestamp: the request is older than the tolerance, or further in the future. It may be a replay.
	ErrTimestamp = errors.New("the timestamp is too far from the clock")
)

const (
	idMost        = 8192 // bytes of a webhook-id, which may have a percent-encoded campaign
	signatureMost = 32   // signatures that are checked; a rotation needs fewer
)

// Delivery is the data in the headers of a verified request.
type Delivery struct {
	ID string    // of the event, the same for each attempt
	At time.Time // of this attempt, to the second
}

// Verify checks that a request with this header and body was signed with one of the secrets, at
// most tolerance (0: [DefaultTolerance]) ago or ahead. Pass the body's bytes unchanged. During a
// rotation pass both secrets. It compares in constant time. Its errors wrap [ErrUnsigned],
// [ErrSignature] or [ErrTimestamp].
func Verify(header http.Header, body []byte, tolerance time.Duration, secrets ...Secret) (Delivery, error) {
	return verify(header, body, tolerance, time.Now(), secrets)
}

func verify(
	header http.Header, body []byte, tolerance time.Duration, now time.Time, secrets []Secret,
) (Delivery, error) {
	if tolerance < 0 {
		return Delivery{}, fmt.Errorf("verify: the tolerance is %s, it cannot be negative: 0 stands for %s", tolerance,
			DefaultTolerance)
	}
	tolerance = cmp.Or(tolerance, DefaultTolerance)
	if len(secrets) == 0 {
		return Delivery{}, errors.New("verify: there is no secret: give at least one")
	}
	for i, s := range secrets {
		if s.IsZero() { // anyone could sign with it
			return Delivery{}, fmt.Errorf("verify: secret %d is empty: read it with ParseSecret", i)
		}
	}
	var values [3]string
	for i, name := range []string{headerID, headerTimestamp, headerSignature} {
		all := header.Values(name)
		if len(all) != 1 || all[0] == "" {
			return Delivery{}, fmt.Errorf("%w: it has %d headers %s, it must have one", ErrUnsigned, len(all), name)
		}
		values[i] = all[0]
	}
	id, timestamp, signatures := values[0], values[1], values[2]
	// Dots separate the parts of the signed content: a dot in the id would make the signature ambiguous.
	if len(id) > idMost || strings.ContainsRune(id, '.') {
		return Delivery{}, fmt.Errorf("%w: %s has a dot or more than %d bytes", ErrUnsigned, headerID, idMost)
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || seconds < 0 || strconv.FormatInt(seconds, 10) != timestamp {
		return Delivery{}, fmt.Errorf("%w: %s is not a number of seconds", ErrUnsigned, headerTimestamp)
	}
	if !signedBy(secrets, signatures, id, timestamp, body) {
		return Delivery{}, ErrSignature
	}
	at := time.Unix(seconds, 0)
	if off := now.Sub(at); off > tolerance || off < -tolerance { // after the signature: only then is it the sender's
		return Delivery{}, fmt.Errorf("%w: it is off by %s, %s are tolerated", ErrTimestamp, off.Truncate(time.Second),
			tolerance)
	}
	return Delivery{ID: id, At: at}, nil
}

// signedBy compares each signature with each secret's, in constant time. It ignores other versions
// of signatures.
func signedBy(secrets []Secret, signatures, id, timestamp string, body []byte) (signed bool) {
	var given [][]byte
	for text := range strings.FieldsSeq(signatures) {
		encoded, ok := strings.CutPrefix(text, version)
		if !ok {
			continue
		}
		if sum, err := base64.StdEncoding.DecodeString(encoded); err == nil && len(given) < signatureMost {
			given = append(given, sum)
		}
	}
	for _, s := range secrets {
		want := s.sum(id, timestamp, body)
		for _, got := range given {
			if hmac.Equal(got, want) {
				signed = true
			}
		}
	}
	return signed
}
