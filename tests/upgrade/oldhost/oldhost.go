// Package oldhost describes the stored hosts of earlier releases in tests/upgrade, and converts
// their text form into files.
//
// A stored host is a directory. data.txt is its data file (Dump). home.txtar contains the other
// files of its $VACANCY_HOME, including throw-away keys. host.json contains what its owner knew
// when the host was killed. tests/upgrade/make writes these directories.
package oldhost

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/vacancy-host/vacancy/shared/front/standalone"
)

// Names of files.
const (
	dataText  = "data.txt"
	homeText  = "home.txtar"
	aboutText = "host.json"

	// HostDir is the data directory in a $VACANCY_HOME.
	HostDir = "host"
	// ExportFile is an export of vacant "mover", with its key and its chains, in a $VACANCY_HOME.
	ExportFile = "mover.vacancy.json"
)

// Host is the description of a kept host, with the facts that its owner knew when it was killed.
type Host struct {
	Commit  string    `json:"commit"`
	Format  int       `json:"format"` // of the data file
	Stopped time.Time `json:"stopped"`
	// Keys are the secrets of account acme's keys by their use: "call", "vacants", "agp".
	Keys map[string]string `json:"keys"`
	// Balances are the balances of tenants in micro-dollars before the unfinished calls began,
	// which hold more.
	Balances map[string]int64 `json:"balances"`
	// Vacants are all vacants by name, and Removed the ids of the deleted ones.
	Vacants map[string]Vacant `json:"vacants"`
	Removed map[string]string `json:"removed"`
	Chains  []Chain           `json:"chains"`
	// Messages are answered messages of A2A clients.
	Messages []Message `json:"messages"`
	// Push is the configuration of the task of the message "slow".
	Push Push `json:"push"`
	// Running is the task of a message whose turn ran when the host was killed.
	Running Message `json:"running"`
	// Unanswered is a signed call that the host had accepted and not answered.
	Unanswered Chain `json:"unanswered"`
	// Booking is a completed booking at venue shop. OpenBooking is the reference of one whose venue,
	// owl, had not answered.
	Booking     string `json:"booking"`
	OpenBooking string `json:"open_booking"`
}

// Vacant is a hosted vacant.
type Vacant struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant,omitempty"`
	State  string `json:"state"`
}

// Chain is the history of an identity with a vacant: the calls' texts and answers.
type Chain struct {
	Identity string      `json:"identity"`
	Vacant   string      `json:"vacant"`
	Texts    [][2]string `json:"texts"`
}

// Message is an A2A request, and the task that the host made of it.
type Message struct {
	Vacant string          `json:"vacant"`
	Key    string          `json:"key,omitempty"` // of Host.Keys; "" is a caller without a key
	Body   json.RawMessage `json:"body"`
	Task   string          `json:"task"`
	Answer string          `json:"answer,omitempty"`
}

// Push is a push notification configuration.
type Push struct {
	Task  string `json:"task"`
	URL   string `json:"url"`
	Token string `json:"token"`
}

// Store writes a host and its $VACANCY_HOME to dir as text.
func (h Host) Store(dir, home string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	about, err := json.MarshalIndent(h, "", "\t")
	if err != nil {
		return err
	}
	var data bytes.Buffer
	if err := Dump(&data, filepath.Join(home, HostDir, standalone.DataFile)); err != nil {
		return err
	}
	files, err := readHome(home)
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{aboutText: append(about, '\n'), dataText: data.Bytes(), homeText: txtar.Format(files)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// readHome returns the files of a $VACANCY_HOME that a host and its callers cannot make again. The
// seal key is written in hexadecimal.
func readHome(home string) (*txtar.Archive, error) {
	files := new(txtar.Archive)
	err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(home, path)
		if err != nil {
			return err
		}
		if slices.Contains([]string{"host/search", "host/journal", "host/exports"}, filepath.ToSlash(name)) {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() || strings.HasSuffix(name, ".lock") || d.Name() == standalone.DataFile {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if d.Name() == standalone.SealFile {
			b = []byte(hex.EncodeToString(b))
		}
		files.Files = append(files.Files, txtar.File{Name: filepath.ToSlash(name), Data: b})
		return nil
	})
	return files, err
}

// Open reads the text in dir, and writes the host's files to home.
func Open(dir, home string) (h Host, err error) {
	about, err := os.ReadFile(filepath.Join(dir, aboutText))
	if err != nil {
		return h, err
	}
	if err := json.Unmarshal(about, &h); err != nil {
		return h, fmt.Errorf("%s: %w", aboutText, err)
	}
	files, err := txtar.ParseFile(filepath.Join(dir, homeText))
	if err != nil {
		return h, err
	}
	for _, f := range files.Files {
		path := filepath.Join(home, filepath.FromSlash(f.Name))
		if filepath.Base(path) == standalone.SealFile {
			if f.Data, err = hex.DecodeString(strings.TrimSpace(string(f.Data))); err != nil {
				return h, fmt.Errorf("%s: %w", f.Name, err)
			}
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return h, err
		}
		if err := os.WriteFile(path, f.Data, 0o600); err != nil {
			return h, err
		}
	}
	data, err := os.Open(filepath.Join(dir, dataText))
	if err != nil {
		return h, err
	}
	defer data.Close()
	return h, Load(data, filepath.Join(home, HostDir, standalone.DataFile))
}
