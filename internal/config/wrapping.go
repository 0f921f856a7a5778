package config

import (
	"errors"
	"fmt"
	"os"

	"github.com/tidemark-go/tidemark/internal/bom"
	"github.com/tidemark-go/tidemark/pkg/catalogue"
)

// WrappingKeys names the wrapping keys of sealed fields.
type WrappingKeys struct{ File, Secret string }

// WrappingKeySettings binds the settings of k.
func WrappingKeySettings(s *Set, k *WrappingKeys) {
	s.String(&k.File, "TIDEMARK_WRAPPING_KEYS", "",
		"wrapping keys of personal fields, a file with NAME:KEY in each line; the first one wraps, all unwrap")
	s.String(&k.Secret, "TIDEMARK_WRAPPING_KEYS_SECRET", "", "instead of the file: its lines, or commas between them")
}

// Sealer returns a sealer with the keys, or nil if none are set.
func (k WrappingKeys) Sealer() (*catalogue.Sealer, error) {
	text, name := k.Secret, "TIDEMARK_WRAPPING_KEYS_SECRET"
	switch {
	case k.File != "" && k.Secret != "":
		return nil, errors.New("TIDEMARK_WRAPPING_KEYS and TIDEMARK_WRAPPING_KEYS_SECRET are both set: use one of them")
	case k.File != "":
		data, err := os.ReadFile(k.File)
		if err != nil {
			return nil, fmt.Errorf("TIDEMARK_WRAPPING_KEYS: %w", err)
		}
		text, name = string(bom.Trim(data)), "TIDEMARK_WRAPPING_KEYS"
	case k.Secret == "":
		return nil, nil
	}
	wrappers, err := catalogue.ParseWrappingKeys(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return catalogue.NewSealer(wrappers...)
}

// Seal gives a catalogue the sealer, if keys are set.
func (k WrappingKeys) Seal(types *catalogue.Catalogue) (*catalogue.Catalogue, error) {
	sealer, err := k.Sealer()
	if err != nil || sealer == nil {
		return types, err
	}
	return types.Sealed(sealer), nil
}
