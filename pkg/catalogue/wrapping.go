package catalogue

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// Wrapper encrypts keys of subjects. [ParseWrappingKeys] makes those of keys in a file; implement it for a
// key management service. bound is authenticated with the key, and must be the same in both calls. Unwrap
// returns [ErrBrokenKey] for a key that the service has refused; with any other error it is asked again later.
type Wrapper interface {
	Name() string // of the wrapping key, stored with each key that it wraps
	Wrap(ctx context.Context, key, bound []byte) (wrapped []byte, err error)
	Unwrap(ctx context.Context, wrapped, bound []byte) (key []byte, err error)
}

// keyBytes is the size of all keys.
const keyBytes = 32

// ParseWrappingKeys reads wrapping keys, one a line or between commas: a name, a colon, and 32 random
// bytes in base64, as `openssl rand -base64 32` prints them. Errors do not quote keys.
func ParseWrappingKeys(text string) (wrappers []Wrapper, err error) {
	for i, line := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' }) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, encoded, found := strings.Cut(line, ":")
		key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
		if !found || err != nil || len(key) != keyBytes {
			return nil, fmt.Errorf("wrapping key %d is not NAME:KEY with %d bytes in base64: make one with openssl rand "+
				"-base64 %d", i+1, keyBytes, keyBytes)
		}
		aead, err := newGCM(key)
		if err != nil {
			return nil, err
		}
		wrappers = append(wrappers, wrappingKey{strings.TrimSpace(name), aead})
	}
	if len(wrappers) == 0 {
		return nil, errors.New("there is no wrapping key")
	}
	return wrappers, nil
}

func newGCM(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// wrappingKey is a Wrapper with AES-256-GCM.
type wrappingKey struct {
	name string
	aead cipher.AEAD
}

func (w wrappingKey) Name() string { return w.name }

func (w wrappingKey) Wrap(_ context.Context, key, bound []byte) ([]byte, error) {
	nonce := make([]byte, w.aead.NonceSize())
	_, _ = rand.Read(nonce)
	return w.aead.Seal(nonce, nonce, key, bound), nil
}

func (w wrappingKey) Unwrap(_ context.Context, wrapped, bound []byte) ([]byte, error) {
	key, err := openGCM(w.aead, nil, wrapped, bound)
	if err != nil {
		return nil, ErrBrokenKey
	}
	return key, nil
}

// openGCM opens a nonce with what was sealed under it, and appends it to buf.
func openGCM(aead cipher.AEAD, buf, sealed, bound []byte) ([]byte, error) {
	n := aead.NonceSize()
	if len(sealed) < n {
		return nil, errors.New("it is too short")
	}
	return aead.Open(buf, sealed[:n], sealed[n:], bound)
}
