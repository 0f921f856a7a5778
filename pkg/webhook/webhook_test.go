package webhook

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The worked example of the standard. Its signature equals that of openssl dgst -sha256 -mac HMAC.
const (
	exampleSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	exampleID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	exampleTimestamp = 1614265330
	exampleBody      = `{"test": 2432232314}`
	exampleSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

func secret(t *testing.T, text string) Secret {
	t.Helper()
	s, err := ParseSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func signed(id string, at time.Time, body string, secrets ...Secret) http.Header {
	h := http.Header{}
	Sign(h, id, at, []byte(body), secrets...)
	return h
}

func TestTheExampleOfTheStandard(t *testing.T) {
	t.Parallel()
	got := signed(exampleID, time.Unix(exampleTimestamp, 0), exampleBody, secret(t, exampleSecret)).Get(headerSignature)
	if got != exampleSignature {
		t.Errorf("the signature is %s, want %s", got, exampleSignature)
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	old, current, other := NewSecret(), NewSecret(), NewSecret()
	const body = `{"a": 1}`
	verifies := func(change func(http.Header), body string, secrets ...Secret) error {
		h := signed("7f3a", now, `{"a": 1}`, old, current)
		if change != nil {
			change(h)
		}
		d, err := verify(h, []byte(body), 0, now, secrets)
		if err == nil && (d.ID != "7f3a" || !d.At.Equal(now)) {
			t.Errorf("it was delivered as %v", d)
		}
		return err
	}
	set := func(name, value string) func(http.Header) { return func(h http.Header) { h.Set(name, value) } }
	t.Run("accepts either secret while one is replaced", func(t *testing.T) {
		t.Parallel()
		for i, secrets := range [][]Secret{{old}, {current}, {other, current}, {current, other}} {
			if err := verifies(nil, body, secrets...); err != nil {
				t.Errorf("secrets %d: %v", i, err)
			}
		}
		unknown := func(h http.Header) { h.Set(headerSignature, "v1a,AAAA  v2,x "+h.Get(headerSignature)) }
		if err := verifies(unknown, body, current); err != nil {
			t.Errorf("with signatures of other versions: %v", err)
		}
	})
	t.Run("refuses what was changed", func(t *testing.T) {
		t.Parallel()
		for what, err := range map[string]error{
			"the secret":     verifies(nil, body, other),
			"the body":       verifies(nil, `{"a": 2}`, current),
			"the body's end": verifies(nil, body+" ", current),
			"the id":         verifies(set(headerID, "7f3b"), body, current),
			"the timestamp":  verifies(set(headerTimestamp, "1800000001"), body, current),
			"the signature": verifies(set(headerSignature, "v1,"+base64.StdEncoding.EncodeToString(make([]byte, 32))),
				body, current),
			"its version": verifies(func(h http.Header) {
				h.Set(headerSignature, strings.ReplaceAll(h.Get(headerSignature), "v1,", "v2,"))
			}, body, current),
			"it to a part": verifies(func(h http.Header) { h.Set(headerSignature, h.Get(headerSignature)[:20]) }, body,
				current),
			"it to an empty one":  verifies(set(headerSignature, "v1,"), body, current),
			"it to one not there": verifies(set(headerSignature, " "), body, current),
		} {
			if !errors.Is(err, ErrSignature) {
				t.Errorf("%s: got %v", what, err)
			}
		}
	})
	t.Run("refuses headers that are missing, doubled or malformed", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{headerID, headerTimestamp, headerSignature} {
			if err := verifies(func(h http.Header) { h.Del(name) }, body, current); !errors.Is(err, ErrUnsigned) {
				t.Errorf("without %s: got %v", name, err)
			}
			if err := verifies(func(h http.Header) { h.Add(name, h.Get(name)) }, body, current); !errors.Is(err, ErrUnsigned) {
				t.Errorf("with two %s: got %v", name, err)
			}
		}
		for _, timestamp := range []string{
			"soon", "+1800000000", "01800000000", "-1", "1800000000.0",
			"99999999999999999999",
		} {
			if err := verifies(set(headerTimestamp, timestamp), body, current); !errors.Is(err, ErrUnsigned) {
				t.Errorf("timestamp %q: got %v", timestamp, err)
			}
		}
	})
	t.Run("does not take a part of the body for the timestamp", func(t *testing.T) {
		t.Parallel()
		// The signed content is the same for id a.1800000000, this timestamp and the body rest.
		h := signed("a", now, "1800000000.rest", current)
		h.Set(headerID, "a.1800000000")
		if _, err := verify(h, []byte("rest"), 0, now, []Secret{current}); !errors.Is(err, ErrUnsigned) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("refuses what is older or newer than the tolerance", func(t *testing.T) {
		t.Parallel()
		for off, want := range map[time.Duration]error{
			-time.Minute: nil, time.Minute: nil, -59 * time.Second: nil, -61 * time.Second: ErrTimestamp,
			61 * time.Second: ErrTimestamp, 1e6 * time.Hour: ErrTimestamp,
		} {
			if _, err := verify(signed("a", now.Add(off), body, current), []byte(body), time.Minute, now,
				[]Secret{current}); !errors.Is(err, want) {
				t.Errorf("off by %s: got %v, want %v", off, err, want)
			}
		}
		if _, err := Verify(signed("a", time.Now(), body, current), []byte(body), 0, current); err != nil {
			t.Errorf("just now: %v", err)
		}
	})
	t.Run("refuses to work without secrets, with an empty one, or with a negative tolerance", func(t *testing.T) {
		t.Parallel()
		h := signed("7f3a", now, body, Secret{})
		for _, secrets := range [][]Secret{nil, {{}}, {current, {}}} {
			if _, err := verify(h, []byte(body), 0, now, secrets); err == nil {
				t.Errorf("%d secrets: no error", len(secrets))
			}
		}
		if _, err := verify(signed("a", now, body, current), []byte(body), -1, now, []Secret{current}); err == nil {
			t.Error("a negative tolerance: no error")
		}
	})
}

func TestParseSecretSaysWhatIsWrongAndDoesNotRepeatIt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw":      "does not begin with whsec_",
		"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS": "not padded base64",
		"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2La": "has 21 bytes, it must have 24 " +
			"to 64",
		"whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("MfKQ", 17))): "has 68 bytes",
	} {
		_, err := ParseSecret(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "MfKQ") {
			t.Errorf("%s: got %v", text, err)
		}
	}
	s := NewSecret()
	if again := secret(t, " "+s.Reveal()+"\n"); string(again.key) != string(s.key) || len(s.key) != 32 {
		t.Error("what is revealed reads as another secret")
	}
}

func TestASecretDoesNotShowItself(t *testing.T) {
	t.Parallel()
	s := secret(t, exampleSecret)
	written, err := json.Marshal(map[string]any{"s": s})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("", "secret", s)
	for _, text := range []string{
		fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s %q", s, s, s, s, s),
		fmt.Sprintf("%+v", struct{ S Secret }{s}), string(written), log.String(),
	} {
		if strings.Contains(text, "MfKQ") || strings.Contains(text, "49 242 144") || strings.Contains(text, "0x31, 0xf2") ||
			!strings.Contains(text, "whsec_") {
			t.Errorf("it shows as %s", text)
		}
	}
}
