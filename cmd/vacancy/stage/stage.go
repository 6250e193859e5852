// Package stage stores a record of each stage that was deployed from this machine, with the host's
// addresses and its operator key. The package also defines the names of a stage's stacks.
//
//	$VACANCY_HOME/stages/<stage>.json    0600
//
// A record is written atomically. A record that other users can read is refused. Printing a record
// never reveals its key.
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

const Default = "dev"

// maxNameBytes limits a stage's name, which is part of names that AWS limits.
const maxNameBytes = 20

// CheckName returns an error unless name is a valid stage name.
func CheckName(name string) error {
	isValid := name != "" && len(name) <= maxNameBytes && name[0] >= 'a' && name[0] <= 'z'
	for i := range len(name) {
		c := name[i]
		isValid = isValid && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-')
	}
	if isValid {
		return nil
	}
	return &problem.Error{Kind: problem.Usage, Field: "stage", Want: "a lower-case letter, then up to 19 of a-z 0-9 -", Got: fmt.Sprintf("%.40q", name)}
}

// Key is an operator key in the clear. Formatting a Key prints a placeholder.
type Key string

func (k Key) Format(f fmt.State, _ rune) {
	placeholder := "no operator key"
	if k != "" {
		placeholder = "operator key"
	}
	_, _ = io.WriteString(f, placeholder)
}

// LogValue implements slog.LogValuer, because slog's JSON handler would otherwise write the key in the
// clear.
func (k Key) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(k)) }

type Record struct {
	Stage   string `json:"stage"`
	Region  string `json:"region"`
	Account string `json:"account"`
	// Absolute URLs of the handlers, without a trailing slash.
	URL         string `json:"url"`
	AdminURL    string `json:"admin_url"`
	ExportURL   string `json:"export_url"`
	RegistryURL string `json:"registry_url"`
	SearchURL   string `json:"search_url"`
	GraduateURL string `json:"graduate_url"`
	GatewayURL  string `json:"gateway_url"`
	// OperatorKey is empty until it is created.
	OperatorKey Key  `json:"operator_key"`
	Edge        bool `json:"edge"`
	// Context contains the CDK context values of a deployment that has not ended, or that an
	// earlier release made. It is nil after a deployment.
	Context map[string]string `json:"context,omitzero"`
}

func (r Record) LogValue() slog.Value {
	return slog.GroupValue(slog.String("stage", r.Stage), slog.String("region", r.Region), slog.String("account", r.Account), slog.String("url", r.URL))
}

type Records struct{ Dir string }

func (r Records) path(name string) string { return filepath.Join(r.Dir, name+".json") }

// Read returns the record of a stage. The error is NotFound if there is no record, Forbidden if
// other users can read its file, or Damaged.
func (r Records) Read(name string) (Record, error) {
	if err := CheckName(name); err != nil {
		return Record{}, err
	}
	path := r.path(name)
	b, err := readPrivateFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, problem.New(problem.NotFound, "stage %s was not deployed from this machine: there is no %s", name, path)
	}
	if err != nil {
		return Record{}, err
	}
	rec, err := parseRecord(b)
	if problem.Is(err, problem.Conflict) {
		return Record{}, problem.WithPlace(problem.Conflict, path, err)
	}
	if err != nil {
		return Record{}, problem.Wrap(problem.Damaged, err, "%s is not a record of a stage", path)
	}
	if rec.Stage != name {
		return Record{}, problem.New(problem.Damaged, "%s is the record of stage %s", path, rec.Stage)
	}
	return rec, nil
}

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

func (r Records) FindByURL(url string) (Record, error) {
	names, err := r.Names()
	if err != nil {
		return Record{}, err
	}
	url = strings.TrimRight(url, "/")
	var readErrs error
	for _, name := range names {
		rec, err := r.Read(name)
		if err != nil {
			readErrs = errors.Join(readErrs, err)
			continue
		}
		if slices.Contains([]string{rec.URL, rec.AdminURL, rec.ExportURL, rec.RegistryURL, rec.SearchURL, rec.GraduateURL, rec.GatewayURL}, url) {
			return rec, nil
		}
	}
	// One of the unreadable records may be the record of this host.
	if readErrs != nil {
		return Record{}, readErrs
	}
	return Record{}, problem.New(problem.NotFound, "no stage that was deployed from this machine is at %s", url)
}

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
	// CheckName does not accept the temporary name, so a file left by a crash is not mistaken for a
	// record.
	f, err := os.CreateTemp(r.Dir, ".new-*") // the file has mode 0600
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
	return durable.SyncDir(r.Dir)
}

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

const maxFileBytes = 256 << 10

// readPrivateFile checks the mode of the opened file, so the file cannot be exchanged between the
// check and the read.
func readPrivateFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o077 != 0 {
		return nil, problem.New(problem.Forbidden, "%s contains an operator key and can be read by other users (mode %04o); run chmod 600 on it, then vacancy keys rotate-operator", path, mode)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(b) > maxFileBytes {
		err = problem.New(problem.Damaged, "%s is larger than %d KiB", path, maxFileBytes>>10)
	}
	return b, err
}
