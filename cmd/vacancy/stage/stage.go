// Package stage stores what this machine knows about the stages deployed from
// it: one file per stage, with the host's address and its operator key. It also
// names a stage's stacks and functions.
//
//	$VACANCY_HOME/stages/<stage>.json    0600
//
// Invariants: a record is written whole or not at all; a record that other
// users can read is refused; printing a record never shows its key.
package stage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/durable"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Default is the stage of commands without --stage.
const Default = "dev"

// maxName limits a stage's name, because it is part of the names of functions
// and roles, which AWS limits.
const maxName = 20

// CheckName refuses an invalid name of a stage. A name is a lower-case letter
// and then up to 19 of a-z 0-9 -.
func CheckName(name string) error {
	ok := name != "" && len(name) <= maxName && name[0] >= 'a' && name[0] <= 'z'
	for i := range len(name) {
		c := name[i]
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-')
	}
	if ok {
		return nil
	}
	return &problem.Error{Kind: problem.Usage, Field: "stage", Want: "a lower-case letter, then up to 19 of a-z 0-9 -", Got: fmt.Sprintf("%.40q", name)}
}

// Key is an operator key in the clear. Formatting a Key shows a placeholder;
// string(k) is the key.
type Key string

// Format implements fmt.Formatter for every verb.
func (k Key) Format(f fmt.State, _ rune) {
	word := "no operator key"
	if k != "" {
		word = "operator key"
	}
	_, _ = io.WriteString(f, word)
}

// LogValue implements slog.LogValuer: a JSON log would otherwise marshal the
// key, as the record's file does.
func (k Key) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(k)) }

// Record is the local record of a stage.
type Record struct {
	Stage   string `json:"stage"`
	Region  string `json:"region"`
	Account string `json:"account"` // AWS account, twelve digits
	// Absolute URLs of the handlers, without a trailing slash.
	URL         string `json:"url"`
	AdminURL    string `json:"admin_url"`
	ExportURL   string `json:"export_url"`
	RegistryURL string `json:"registry_url"`
	SearchURL   string `json:"search_url"`
	GraduateURL string `json:"graduate_url"`
	GatewayURL  string `json:"gateway_url"` // of accounts and AGP
	// OperatorKey opens the admin and export handlers; empty until it is
	// created.
	OperatorKey Key `json:"operator_key"`
	// Edge reports whether CloudFront serves the stage.
	Edge bool `json:"edge"`
	// Context holds the CDK context values of a deployment that has not ended, or that an earlier
	// release made. It is nil after a deployment, because the stage stores its settings.
	Context map[string]string `json:"context,omitzero"`
}

// LogValue implements slog.LogValuer, for the same reason as Key.
func (r Record) LogValue() slog.Value {
	return slog.GroupValue(slog.String("stage", r.Stage), slog.String("region", r.Region), slog.String("account", r.Account), slog.String("url", r.URL))
}

// Records is the directory of all records.
type Records struct{ Dir string }

// path is the file of a stage. The name must have been checked.
func (r Records) path(name string) string { return filepath.Join(r.Dir, name+".json") }

// Read returns the record of a stage: NotFound if there is none, Forbidden if
// other users can read its file, Damaged if the file is not a record of that
// stage.
func (r Records) Read(name string) (Record, error) {
	if err := CheckName(name); err != nil {
		return Record{}, err
	}
	path := r.path(name)
	b, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, problem.New(problem.NotFound, "stage %s was not deployed from here: there is no %s", name, path)
	}
	if err != nil {
		return Record{}, err
	}
	rec, err := parse(b)
	if problem.Is(err, problem.Conflict) {
		return Record{}, problem.Within(problem.Conflict, path, err)
	}
	if err != nil {
		return Record{}, problem.Wrap(problem.Damaged, err, "%s is not a record of a stage", path)
	}
	if rec.Stage != name {
		return Record{}, problem.New(problem.Damaged, "%s is the record of stage %s", path, rec.Stage)
	}
	return rec, nil
}

// Names lists the stages that have a record, sorted.
func (r Records) Names() ([]string, error) {
	entries, err := os.ReadDir(r.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && CheckName(name) == nil {
			names = append(names, name)
		}
	}
	return names, nil
}

// ByURL returns the record of the host at url, which may have a trailing slash:
// NotFound if no record matches. The error of an unreadable record is returned
// only if no other record matches.
func (r Records) ByURL(url string) (Record, error) {
	names, err := r.Names()
	if err != nil {
		return Record{}, err
	}
	url = strings.TrimRight(url, "/")
	var unread error
	for _, name := range names {
		rec, err := r.Read(name)
		if err != nil {
			unread = errors.Join(unread, err)
			continue
		}
		if slices.Contains([]string{rec.URL, rec.AdminURL, rec.ExportURL, rec.RegistryURL, rec.SearchURL, rec.GraduateURL, rec.GatewayURL}, url) {
			return rec, nil
		}
	}
	if unread != nil {
		return Record{}, unread
	}
	return Record{}, problem.New(problem.NotFound, "no stage that was deployed from here is at %s", url)
}

// Write replaces the record of a stage and returns when it is durable.
func (r Records) Write(rec Record) error {
	if err := CheckName(rec.Stage); err != nil {
		return err
	}
	b, err := rec.encode()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return err
	}
	// CheckName refuses this temporary name, so a file left by a crash is not
	// taken for a record. Each writer has its own temporary file.
	f, err := os.CreateTemp(r.Dir, ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), r.path(rec.Stage)); err != nil {
		return err
	}
	return durable.Dir(r.Dir)
}

// Remove deletes the record of a stage. Removing a missing record succeeds.
func (r Records) Remove(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	err := os.Remove(r.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// maxFile limits the size of a record.
const maxFile = 256 << 10

// readPrivate reads a file that only its owner can read. It checks the mode of
// the open file, so the file cannot be exchanged between the check and the
// read.
func readPrivate(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := st.Mode().Perm(); runtime.GOOS != "windows" && mode&0o077 != 0 {
		return nil, problem.New(problem.Forbidden, "%s holds an operator key and can be read by others (mode %04o); chmod 600 it, then: vacancy keys rotate-operator", path, mode)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = problem.New(problem.Damaged, "%s is larger than %d KiB", path, maxFile>>10)
	}
	return b, err
}
