package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tidemark-go/tidemark/internal/store/feed"

	"github.com/tidemark-go/tidemark/pkg/publisher"
)

// Config configures a sink.
type Config struct {
	Name    string        // default "file"
	Path    string        `yaml:"path"` // required; "-" is standard output
	MaxSize int64         // bytes after which the file is moved aside; 0: any
	MaxAge  time.Duration `yaml:"max_age"` // time after which it is moved aside, counted from its first line; 0: any
	NoSync  bool          // do not wait for the disk
	Encoder publisher.Encoder
	Stdout  io.Writer // for Path "-"; default os.Stdout
}

// sink appends events to a file.
type sink struct {
	cfg Config

	mu     sync.Mutex
	closed bool
	file   *os.File // nil until needed
	size   int64
	since  time.Time // of the file's first line
	buffer []byte
	attrs  []publisher.Attribute
}

// New checks the configuration. The file is opened by the first Publish, its folder must exist.
func New(cfg Config) (publisher.Sink, error) {
	cfg.Name = cmp.Or(cfg.Name, "file")
	if cfg.Stdout == nil {
		cfg.Stdout = os.Stdout
	}
	errs := []error{cfg.Encoder.Check()}
	if cfg.Path == "" {
		errs = append(errs, errors.New(`path is missing: name a file, or "-" for standard output`))
	}
	if cfg.MaxSize < 0 || cfg.MaxAge < 0 {
		errs = append(errs, fmt.Errorf("max_size is %d and max_age %s, neither may be negative", cfg.MaxSize, cfg.MaxAge))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &sink{cfg: cfg}, nil
}

// Name is the configured name.
func (s *sink) Name() string { return s.cfg.Name }

// Publish appends the events.
func (s *sink) Publish(ctx context.Context, events []publisher.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed {
		return publisher.ErrClosed
	}
	s.buffer = s.buffer[:0]
	for i := range events {
		s.buffer = s.appendLine(s.buffer, &events[i])
	}
	if s.cfg.Path == "-" {
		_, err := s.cfg.Stdout.Write(s.buffer)
		return publisher.Outage(err)
	}
	if err := s.prepare(int64(len(s.buffer))); err != nil {
		return publisher.Outage(err)
	}
	return publisher.Outage(s.write())
}

// Healthy opens the file if it is not open.
func (s *sink) Healthy(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Path == "-" {
		return nil
	}
	return s.prepare(0)
}

// Close closes the file.
func (s *sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.letGo()
}

// write appends the buffer. What fails in the middle is taken back, so that no line is half there;
// where even that fails, the next opening does it.
func (s *sink) write() error {
	n, err := s.file.Write(s.buffer)
	if err == nil && !s.cfg.NoSync {
		err = s.file.Sync()
	}
	if err != nil {
		_ = s.file.Truncate(s.size)
		return errors.Join(err, s.letGo())
	}
	s.size += int64(n)
	return nil
}

// prepare opens the file, and moves it aside first if it is too old or would get too large.
func (s *sink) prepare(more int64) error {
	if s.file == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	old := s.cfg.MaxAge > 0 && time.Since(s.since) >= s.cfg.MaxAge
	large := s.cfg.MaxSize > 0 && s.size+more > s.cfg.MaxSize
	if s.size == 0 || !old && !large {
		return nil
	}
	path := s.file.Name()
	if err := s.letGo(); err != nil {
		return err
	}
	ext := filepath.Ext(path)
	aside := path[:len(path)-len(ext)] + time.Now().UTC().Format("-20060102T150405.000000000Z") + ext
	if err := os.Rename(path, aside); err != nil {
		return err
	}
	return s.open()
}

func (s *sink) letGo() error {
	if s.file == nil {
		return nil
	}
	file := s.file
	s.file = nil
	return file.Close()
}

// appendLine appends the event's line to b.
func (s *sink) appendLine(b []byte, e *publisher.Event) []byte {
	if f := s.cfg.Encoder.Format; f == publisher.FormatRaw || f == publisher.FormatCloudEventsStructured {
		return append(s.cfg.Encoder.AppendBody(b, e), '\n')
	}
	s.attrs = s.cfg.Encoder.AppendAttributes(s.attrs[:0], e)
	b = append(b, `{"attributes":{`...)
	for i, a := range s.attrs {
		if i > 0 {
			b = append(b, ',')
		}
		b = feed.AppendString(b, a.Name)
		b = append(b, ':')
		b = feed.AppendString(b, a.Value)
	}
	b = append(b, `},"body":`...)
	b = s.cfg.Encoder.AppendBody(b, e)
	return append(b, "}\n"...)
}
