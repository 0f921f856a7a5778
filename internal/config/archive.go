package config

import (
	"fmt"

	"github.com/tidemark-go/tidemark/pkg/archive"
	"github.com/tidemark-go/tidemark/pkg/event"
)

// Archive names the archive of campaigns.
type Archive struct {
	URL   string
	Kinds archive.Kinds // besides folders
}

// ArchiveSetting binds the setting of a.
func ArchiveSetting(s *Set, a *Archive) {
	s.String(&a.URL, "TIDEMARK_ARCHIVE_URL", "",
		"archive of campaigns, file:///folder, or s3://bucket/prefix with adapters/s3")
}

// Open returns the store; nil: none is set.
func (a Archive) Open() (archive.Store, error) {
	if a.URL == "" {
		return nil, nil
	}
	store, err := archive.Open(a.URL, a.Kinds)
	if err != nil {
		return nil, fmt.Errorf("TIDEMARK_ARCHIVE_URL: %w", err)
	}
	return store, nil
}

// Reader returns what reads archived campaigns; nil: no archive is set.
func (a Archive) Reader() (event.Archive, error) {
	store, err := a.Open()
	if err != nil || store == nil {
		return nil, err
	}
	return archive.NewReader(store, 0), nil
}
