package file

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// open opens the file at its end and cuts off a torn last line.
func (s *sink) open() error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	path := strings.NewReplacer("{host}", host, "{pid}", strconv.Itoa(os.Getpid())).Replace(s.cfg.Path)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	size, err := wholeLines(file)
	if err == nil {
		err = file.Truncate(size)
	}
	if err == nil && size == 0 {
		err = syncFolder(filepath.Dir(path)) // that there is such a file
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	s.file, s.size, s.since = file, size, time.Now()
	if info, err := file.Stat(); err == nil && size > 0 {
		s.since = info.ModTime() // the first line is older, and nothing says how old
	}
	return nil
}

// wholeLines answers the length of the file up to its last line's end.
func wholeLines(file *os.File) (int64, error) {
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	chunk := make([]byte, 64<<10)
	for end > 0 {
		n := min(end, int64(len(chunk)))
		if _, err := file.ReadAt(chunk[:n], end-n); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(chunk[:n], '\n'); i >= 0 {
			return end - n + int64(i) + 1, nil
		}
		end -= n
	}
	return 0, nil
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
