// Package stage keeps what this machine knows of the stages that were deployed
// from it: one file per stage, with where the host is and the key that
// administers it. It knows what a stage's stacks and functions are called.
//
//	$VACANCY_HOME/stages/<stage>.json    0600
//
// The invariants: a record is there whole or not at all; one that others can
// read is refused; a key is shown by nothing that prints a record.
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

// Default is the stage of who names none.
const Default = "dev"

// maxName is the longest name of a stage: it is part of the names of functions
// and roles, which AWS bounds.
const maxName = 20

// CheckName refuses what cannot be the name of a stage: a lower-case letter,
// then up to 19 of a-z 0-9 -.
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

// Key is an operator key in the clear. It prints as a word and not as itself;
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

// Record is what is known of a stage.
type Record struct {
	Stage   string `json:"stage"`
	Region  string `json:"region"`
	Account string `json:"account"` // AWS account, twelve digits
	// The handlers: absolute URLs, without a slash at their end. Those of the
	// registry, of search and of the gate are unknown for a stage that was
	// deployed before it had them.
	URL         string `json:"url"`
	AdminURL    string `json:"admin_url"`
	ExportURL   string `json:"export_url"`
	RegistryURL string `json:"registry_url"`
	SearchURL   string `json:"search_url"`
	GraduateURL string `json:"graduate_url"`
	// OperatorKey opens the account and export handlers; empty until it was minted.
	OperatorKey Key `json:"operator_key"`
	// Edge says that CloudFront stands before the functions.
	Edge bool `json:"edge"`
	// Swapped says that functions have code that CloudFormation does not know of.
	Swapped bool `json:"swapped"`
	// Context are the CDK context values of the last deploy that was asked for,
	// which the next one begins with.
	Context map[string]string `json:"context"`
}

// LogValue implements slog.LogValuer, for the reason that Key does.
func (r Record) LogValue() slog.Value {
	return slog.GroupValue(slog.String("stage", r.Stage), slog.String("region", r.Region), slog.String("account", r.Account), slog.String("url", r.URL))
}

// Records is the directory of all records.
type Records struct{ Dir string }

// path is the file of a stage, whose name must have been checked.
func (r Records) path(name string) string { return filepath.Join(r.Dir, name+".json") }

// Read returns the record of a stage: NotFound if there is none, Forbidden if
// others can read its file, Damaged if it is no record of that stage.
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

// ByURL returns the record of the host at url, which may end in a slash:
// NotFound if none has it. A record that cannot be read is passed over unless
// no other fits; then its error is returned.
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
		if slices.Contains([]string{rec.URL, rec.AdminURL, rec.ExportURL, rec.RegistryURL, rec.SearchURL, rec.GraduateURL}, url) {
			return rec, nil
		}
	}
	if unread != nil {
		return Record{}, unread
	}
	return Record{}, problem.New(problem.NotFound, "no stage that was deployed from here is at %s", url)
}

// Write puts the record of a stage in the place of the one before, and returns
// when it is on disk.
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
	// A name of its own, which CheckName refuses: two writers do not share it,
	// and what a crash leaves is no record.
	f, err := os.CreateTemp(r.Dir, ".new-*") // 0600
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

// Remove takes the record of a stage away. One that is not there is no error.
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

// maxFile bounds a record.
const maxFile = 256 << 10

// readPrivate reads a file that its owner alone may read. The mode is that of
// the open file, so that nobody can exchange it between the check and the read.
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
