package sqlfile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/tidemark-go/tidemark/internal/slice"
	"github.com/tidemark-go/tidemark/pkg/event"
	"github.com/tidemark-go/tidemark/pkg/projection"
)

// LoadDir loads the projections in the files of fsys whose names end in .sql, in the order of their
// names. It ignores folders, other files and names that begin with a dot. A projection may have
// several versions, each in its own file. An fsys without such a file is an error, since it is
// nearly always a wrong path.
//
// The mistakes of all files are reported together, each as an [*Error].
func LoadDir(fsys fs.FS) ([]projection.Projection, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("read the projections' folder: %w", err)
	}
	var projections []projection.Projection
	var errs []error
	files, fileOf := 0, map[string]string{} // by name and version
	for _, entry := range entries {
		if entry.IsDir() || path.Ext(entry.Name()) != ".sql" || strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		files++
		projection, err := loadFile(fsys, entry.Name())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		this := fmt.Sprint(projection.spec.Name, " ", projection.spec.Version)
		if other, taken := fileOf[this]; taken {
			reason := fmt.Sprintf("version %d of projection %q is already in %s", projection.spec.Version, projection.spec.Name,
				other)
			errs = append(errs, &Error{File: entry.Name(), Line: projection.nameLine, Reason: reason})
			continue
		}
		fileOf[this] = entry.Name()
		projections = append(projections, projection)
	}
	if files == 0 {
		return nil, errors.New("the projections' folder holds no .sql file")
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return projections, nil
}

// Load loads the projection in one file of fsys. It reports all mistakes together, each as an [*Error].
//
// The result is a [projector.Checker].
func Load(fsys fs.FS, name string) (projection.Projection, error) {
	projection, err := loadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	return projection, nil
}

func loadFile(fsys fs.FS, name string) (*sqlFile, error) {
	raw, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, &Error{File: name, Reason: err.Error(), Err: err}
	}
	return parseSQLFile(name, raw)
}

type sqlFile struct {
	file     string
	spec     projection.Spec
	nameLine int // line of its declaration
	tables   []sqlStatement
	handlers []*sqlHandler
	byType   map[string]*sqlHandler
}

// sqlHandler holds the statements for events of some types.
type sqlHandler struct {
	types      []string
	line       int
	statements []sqlStatement
}

// Spec implements [projection.Projection].
func (f *sqlFile) Spec() projection.Spec {
	spec := f.spec
	spec.Types = slices.Clone(spec.Types)
	return spec
}

// StatementsHash returns a hash of the handlers' statements. Comments, white space, the order of handlers,
// and the tables are no part of it.
func (f *sqlFile) StatementsHash() string {
	h := sha256.New()
	for _, eventType := range slices.Sorted(maps.Keys(f.byType)) {
		_, _ = fmt.Fprintf(h, "%q\n", eventType)
		for _, s := range f.byType[eventType].statements {
			_, _ = fmt.Fprintf(h, "%q\n", s.words)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Apply implements [projection.Projection]. It queues the statements of each event.
func (f *sqlFile) Apply(ctx context.Context, group *projection.Group) error {
	for i := range group.Events {
		group.At(group.Events[i])
		if err := f.ApplyEvent(ctx, group, group.Events[i]); err != nil {
			return err
		}
	}
	return nil
}

// ApplyEvent queues the statements of one event.
func (f *sqlFile) ApplyEvent(_ context.Context, group *projection.Group, event event.Event) error {
	handler, ok := f.byType[event.Type]
	if !ok {
		return nil
	}
	for i := range handler.statements {
		statement := &handler.statements[i]
		args := slice.Of(statement.fields, func(field eventField) any { return field.value(&event) })
		group.Queue(statement.text, args...)
	}
	return nil
}

// Error is a mistake in an SQL file. [Load], [LoadDir] and the Check of a loaded projection join
// one for each mistake; [errors.As] finds the first.
type Error struct {
	File   string // the name it was loaded by
	Line   int    // from 1; 0 for the file as a whole
	Reason string
	Err    error // from Postgres or the file system; nil if reading the file found the mistake
}

// Error returns "file:line: reason".
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Reason)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

type mistakes struct {
	file string
	list []*Error
}

func (e *mistakes) add(line int, format string, args ...any) {
	e.list = append(e.list, &Error{File: e.file, Line: line, Reason: fmt.Sprintf(format, args...)})
}

// join returns all mistakes in the order of their lines, or nil.
func (e *mistakes) join() error {
	slices.SortStableFunc(e.list, func(a, b *Error) int { return cmp.Compare(a.Line, b.Line) })
	return errors.Join(slice.Of(e.list, func(err *Error) error { return err })...)
}
