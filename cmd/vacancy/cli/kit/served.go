package kit

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// startFile is a file in a data directory. It records whether serve has run in the directory.
const startFile = "start.json"

type start struct {
	Served bool `json:"served"`
}

func HasServed(dir string) bool {
	var last start
	b, err := os.ReadFile(filepath.Join(dir, startFile))
	return err == nil && json.Unmarshal(b, &last) == nil && last.Served
}

// MarkServed records that serve has run in a data directory. It writes the record only once, so
// that a host with a full disk can be started again.
func MarkServed(dir string) error {
	if HasServed(dir) {
		return nil
	}
	b, err := json.Marshal(start{Served: true})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, startFile), append(b, '\n'), 0o600)
}

// StartAgain returns a hint with the command that starts the host in the directory of --data. The
// command is serve if serve has run in the directory, because dev would give cards another address.
func (a *App) StartAgain(data string) string {
	if dir, err := a.DataDir(data); err == nil && HasServed(dir) {
		return a.Command("serve%s, with the flags of its last start", DataArg(data))
	}
	return a.Command("dev%s", DataArg(data))
}
