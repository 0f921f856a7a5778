package tabletop

import (
	"embed"
	"io/fs"

	"github.com/tidemark-go/tidemark/pkg/projection"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
)

//go:embed projections/*.sql
var sqlFiles embed.FS

// Projections returns all read models of the example.
func Projections() ([]projection.Projection, error) {
	folder, err := fs.Sub(sqlFiles, "projections")
	if err != nil {
		return nil, err
	}
	files, err := sqlfile.LoadDir(folder)
	if err != nil {
		return nil, err
	}
	return append([]projection.Projection{
		Campaigns(), Characters(), Participants(), Players(),
	}, files...), nil
}
