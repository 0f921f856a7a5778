package tabletop

import (
	"embed"
	"io/fs"

	"github.com/tidemark-go/tidemark/pkg/projector"
	"github.com/tidemark-go/tidemark/pkg/projector/sqlfile"
)

//go:embed projections/*.sql
var sqlFiles embed.FS

// Projections returns all read models of the example.
func Projections() ([]projector.Projection, error) {
	folder, err := fs.Sub(sqlFiles, "projections")
	if err != nil {
		return nil, err
	}
	files, err := sqlfile.LoadDir(folder)
	if err != nil {
		return nil, err
	}
	return append([]projector.Projection{
		Campaigns(), Characters(), Participants(), projector.NewDocument(Players()),
	}, files...), nil
}
