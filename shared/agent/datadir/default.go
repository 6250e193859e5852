package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/vacancy-host/vacancy/shared/durable"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// defaultFile contains the name of the default identity. Its second line is toldMarker if a command
// has told the user about the default.
const defaultFile = ".default"

const toldMarker = "told"

// Default returns the name of the default identity, or "". userTold is true if the user was told
// that this identity signs by default.
func (d *Dir) Default() (name string, userTold bool, err error) {
	b, err := os.ReadFile(filepath.Join(d.Dir, defaultFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, problem.Wrap(problem.Unavailable, err, "cannot read the default identity")
	}
	name, rest, _ := strings.Cut(string(b), "\n")
	if CheckName(name) != nil {
		return "", false, nil // a damaged file means no default
	}
	if _, err := os.Stat(filepath.Join(d.Dir, name)); err != nil {
		return "", false, nil // the identity was removed
	}
	return name, strings.TrimSpace(rest) == toldMarker, nil
}

func (d *Dir) SetDefault(name string, userTold bool) error {
	text := name + "\n"
	if userTold {
		text += toldMarker + "\n"
	}
	tmpPath := filepath.Join(d.Dir, defaultFile+".new")
	err := os.WriteFile(tmpPath, []byte(text), 0o600)
	if err == nil {
		err = os.Rename(tmpPath, filepath.Join(d.Dir, defaultFile))
	}
	if err != nil {
		return problem.Wrap(problem.Unavailable, err, "the default identity cannot be stored")
	}
	return durable.SyncDir(d.Dir)
}
