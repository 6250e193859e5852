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

// defaultFile names the default identity, and in a second line, once the person
// was told, says so.
const defaultFile = ".default"

const toldLine = "told"

// Default returns the name of the default identity, or "", and whether the
// person was told that it signs.
func (h *Dir) Default() (name string, told bool, err error) {
	b, err := os.ReadFile(filepath.Join(h.Dir, defaultFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, problem.Wrap(problem.Unavailable, err, "which identity is the default cannot be read")
	}
	name, rest, _ := strings.Cut(string(b), "\n")
	if CheckName(name) != nil {
		return "", false, nil // damaged: as if none was chosen
	}
	if _, err := os.Stat(filepath.Join(h.Dir, name)); err != nil {
		return "", false, nil // it was removed
	}
	return name, strings.TrimSpace(rest) == toldLine, nil
}

// SetDefault makes an identity the default.
func (h *Dir) SetDefault(name string, told bool) error {
	text := name + "\n"
	if told {
		text += toldLine + "\n"
	}
	fresh := filepath.Join(h.Dir, defaultFile+".new")
	err := os.WriteFile(fresh, []byte(text), 0o600)
	if err == nil {
		err = os.Rename(fresh, filepath.Join(h.Dir, defaultFile))
	}
	if err != nil {
		return problem.Wrap(problem.Unavailable, err, "the default identity cannot be kept")
	}
	return durable.Dir(h.Dir)
}
