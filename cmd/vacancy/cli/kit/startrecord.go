package kit

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// startRecordFile records whether serve has run in a data directory.
const startRecordFile = "start.json"

type startRecord struct {
	Served bool `json:"served"`
}

func HasServed(dir string) bool {
	var record startRecord
	b, err := os.ReadFile(filepath.Join(dir, startRecordFile))
	return err == nil && json.Unmarshal(b, &record) == nil && record.Served
}

// MarkServed records that serve has run in a data directory. It writes only once, so that a host
// with a full disk can be started again.
func MarkServed(dir string) error {
	if HasServed(dir) {
		return nil
	}
	b, err := json.Marshal(startRecord{Served: true})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, startRecordFile), append(b, '\n'), 0o600)
}

// StartHint returns the command that starts the host of a data directory. If serve has run in the
// directory, the command is serve, because dev would change the address in cards.
func (a *App) StartHint(data string) string {
	if dir, err := a.DataDir(data); err == nil && HasServed(dir) {
		return a.FormatCommand("serve%s, with the flags of its last start", DataArg(data))
	}
	return a.FormatCommand("dev%s", DataArg(data))
}
