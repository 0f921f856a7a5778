package catalogue_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/tidemark-go/tidemark/pkg/catalogue"
	"github.com/tidemark-go/tidemark/pkg/journal"
)

// kmsKey wraps keys of subjects by a key that a key management service keeps.
type kmsKey struct {
	client *kmsClient
	id     string
}

func (k kmsKey) Name() string { return k.id }

func (k kmsKey) Wrap(ctx context.Context, key, bound []byte) ([]byte, error) {
	return k.client.Encrypt(ctx, k.id, key, bound)
}

func (k kmsKey) Unwrap(ctx context.Context, wrapped, bound []byte) ([]byte, error) {
	return k.client.Decrypt(ctx, k.id, wrapped, bound)
}

// A sealer with a key management service calls it for the first time when an event about a person is
// appended or read.
func ExampleWrapper() {
	client := newKMS("alias/persons")
	sealer, err := catalogue.NewSealer(kmsKey{client, "alias/persons"})
	if err != nil {
		fmt.Println(err)
		return
	}
	types, err := catalogue.New(catalogue.EventType{
		Name: "ordered", Subject: []string{"customer"}, Personal: []string{"email"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = journal.Journal{Catalogue: types.Sealed(sealer)} // its appends seal
	fmt.Println("calls at start-up:", client.calls)
	// Output:
	// calls at start-up: 0
}

// errAway is the error of a service that is away.
var errAway = errors.New("the service is away")

// kmsClient stands for the client of a service, which keeps versions of keys: the last one encrypts.
type kmsClient struct {
	mu    sync.Mutex
	keys  map[string][]cipher.AEAD
	calls int
	most  int  // calls until it is away; 0: any number
	hangs bool // until the call's context ends
}

func newKMS(ids ...string) *kmsClient {
	c := &kmsClient{keys: map[string][]cipher.AEAD{}}
	for _, id := range ids {
		c.addVersion(id)
	}
	return c
}

func (c *kmsClient) addVersion(id string) {
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	block, _ := aes.NewCipher(key) // has the right size
	aead, _ := cipher.NewGCM(block)
	c.keys[id] = append(c.keys[id], aead)
}

func (c *kmsClient) call(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls++; c.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if c.most > 0 && c.calls > c.most {
		return errAway
	}
	return nil
}

// away makes the service unreachable after some more calls.
func (c *kmsClient) away(after int) { c.most = c.calls + after }

// back ends this.
func (c *kmsClient) back() { c.most = 0 }

// Encrypt encrypts by the last version of a key.
func (c *kmsClient) Encrypt(ctx context.Context, id string, plain, context []byte) ([]byte, error) {
	if err := c.call(ctx); err != nil {
		return nil, err
	}
	versions := c.keys[id]
	version := len(versions) - 1
	nonce := make([]byte, versions[version].NonceSize())
	_, _ = rand.Read(nonce)
	return versions[version].Seal(append([]byte{byte(version)}, nonce...), nonce, plain, context), nil
}

// Decrypt decrypts by the version of the key that encrypted.
func (c *kmsClient) Decrypt(ctx context.Context, id string, sealed, context []byte) ([]byte, error) {
	if err := c.call(ctx); err != nil {
		return nil, err
	}
	aead := c.keys[id][sealed[0]]
	n := 1 + aead.NonceSize()
	return aead.Open(nil, sealed[1:n], sealed[n:], context)
}
