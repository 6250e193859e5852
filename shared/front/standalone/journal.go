package standalone

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// journalDir contains a file of JSON lines for each UTC day. The log may quote texts of agents, so
// the file of a day is deleted when the host's texts of that day become unreadable.
const journalDir = "journal"

const (
	dayFormat     = time.DateOnly
	journalSuffix = ".jsonl"
	flushDelay    = 10 * time.Millisecond
	// maxDayBytes prevents a flood of calls from filling the disk.
	maxDayBytes = 256 << 20
)

// Journal writes the log of a host to its data directory. It is safe for concurrent use.
type Journal struct {
	dir         string
	now         func() time.Time
	maxDayBytes int64

	mu         sync.Mutex
	buf        bytes.Buffer
	flushTimer *time.Timer
	file       *os.File
	day        string
	dayStart   time.Time
	fileSize   int64
	shares     journalShares // bytes per sender on day
	err        error
}

func OpenJournal(dir string, now func() time.Time) (*Journal, error) {
	path := filepath.Join(dir, journalDir)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, problem.Wrap(problem.Unavailable, err, "the journal %s cannot be created", path)
	}
	j := &Journal{dir: path, now: now, maxDayBytes: maxDayBytes}
	j.deleteExpired(now())
	return j, nil
}

func (j *Journal) Write(line []byte) (int, error) {
	// A full disk must not stop the host, so only Close returns write errors.
	j.writeLine(line, failureLine, "")
	return len(line), nil
}

// writeLine drops a line whose kind or sender has exhausted its share of the day's file. senderID
// is "" for lines of the host itself.
func (j *Journal) writeLine(line []byte, kind lineKind, senderID string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if now := j.now(); j.day == "" || now.Before(j.dayStart) || now.Sub(j.dayStart) >= 24*time.Hour {
		j.startDay(now.UTC())
	}
	accepted, warning := j.shares.accept(int64(len(line)), j.fileSize+int64(j.buf.Len()), j.maxDayBytes, kind, senderID)
	if accepted {
		j.buf.Write(line)
	}
	if warning != "" {
		// Writing to memory cannot fail.
		_ = slog.NewJSONHandler(&j.buf, nil).Handle(context.Background(), slog.NewRecord(j.now(), slog.LevelWarn, warning, 0))
	}
	if j.buf.Len() == 0 {
		return
	}
	if j.flushTimer == nil {
		j.flushTimer = time.AfterFunc(flushDelay, func() {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.flushBuffer()
		})
	}
}

func (j *Journal) startDay(now time.Time) {
	if j.buf.Len() > 0 {
		j.flushBuffer()
	}
	if j.file != nil {
		j.file.Close()
	}
	j.deleteExpired(now)
	j.day, j.dayStart, j.shares = now.Format(dayFormat), now.Truncate(24*time.Hour), journalShares{seed: maphash.MakeSeed()}
	j.openFile()
}

func (j *Journal) openFile() {
	j.fileSize = 0
	if j.file, j.err = os.OpenFile(filepath.Join(j.dir, j.day+journalSuffix), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); j.err != nil {
		j.file = nil
		return
	}
	if info, err := j.file.Stat(); err == nil {
		j.fileSize = info.Size()
	}
}

func (j *Journal) flushBuffer() {
	if j.flushTimer != nil {
		j.flushTimer.Stop()
		j.flushTimer = nil
	}
	defer j.buf.Reset()
	if j.file == nil {
		j.openFile()
	}
	if j.file == nil {
		return
	}
	n, err := j.file.Write(j.buf.Bytes())
	j.fileSize += int64(n)
	if err != nil {
		j.err = err
	}
}

func (j *Journal) deleteExpired(now time.Time) {
	days, err := journalDays(j.dir)
	if err != nil {
		return
	}
	for _, day := range days {
		dayStart, err := time.Parse(dayFormat, day)
		if err == nil && !now.Before(dayStart.Add(24*time.Hour+textkeys.MinRetention)) {
			os.Remove(filepath.Join(j.dir, day+journalSuffix))
		}
	}
}

func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.buf.Len() > 0 {
		j.flushBuffer()
	}
	if j.file != nil {
		j.err = errors.Join(j.err, j.file.Close())
		j.file = nil
	}
	if j.err != nil {
		return problem.Wrap(problem.Unavailable, j.err, "the journal in %s is not complete", j.dir)
	}
	return nil
}

func journalDays(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var days []string
	for _, e := range entries {
		if day, ok := strings.CutSuffix(e.Name(), journalSuffix); ok && e.Type().IsRegular() {
			days = append(days, day)
		}
	}
	slices.Sort(days)
	return days, nil
}

// JournalReader reads the journal of a data directory, even while a host writes it. It is not safe
// for concurrent use.
type JournalReader struct {
	dir         string
	day         string
	file        *os.File
	partialLine []byte
}

// OpenJournalReader returns a reader that begins with the file of firstDay. The error is of kind
// NotFound if the directory has no journal.
func OpenJournalReader(dir string, firstDay time.Time) (*JournalReader, error) {
	path := filepath.Join(dir, journalDir)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, problem.New(problem.NotFound, "no host has written a journal in %s", dir)
	}
	return &JournalReader{dir: path, day: firstDay.UTC().AddDate(0, 0, -1).Format(dayFormat)}, nil
}

func (r *JournalReader) ReadNewLines(ctx context.Context, fn func(line []byte) error) error {
	for {
		if err := r.readFileLines(ctx, fn); err != nil {
			return err
		}
		days, err := journalDays(r.dir)
		if err != nil {
			return problem.Wrap(problem.Unavailable, err, "the journal %s cannot be read", r.dir)
		}
		nextIndex := slices.IndexFunc(days, func(day string) bool { return day > r.day })
		if nextIndex < 0 {
			return nil
		}
		// The last lines of the day may have been written after the first read.
		if err := r.readFileLines(ctx, fn); err != nil {
			return err
		}
		r.Close()
		file, err := os.Open(filepath.Join(r.dir, days[nextIndex]+journalSuffix))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return problem.Wrap(problem.Unavailable, err, "the journal of %s cannot be read", days[nextIndex])
		}
		r.file, r.day, r.partialLine = file, days[nextIndex], nil
		if err != nil {
			r.file = nil
		}
	}
}

func (r *JournalReader) readFileLines(ctx context.Context, fn func([]byte) error) error {
	if r.file == nil {
		return nil
	}
	chunk := make([]byte, 64<<10)
	for ctx.Err() == nil {
		n, err := r.file.Read(chunk)
		r.partialLine = append(r.partialLine, chunk[:n]...)
		for {
			line, rest, found := bytes.Cut(r.partialLine, []byte("\n"))
			if !found {
				break
			}
			r.partialLine = rest
			if err := fn(line); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return problem.Wrap(problem.Unavailable, err, "the journal of %s cannot be read", r.day)
		}
	}
	return ctx.Err()
}

func (r *JournalReader) Close() {
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}
