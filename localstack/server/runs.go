package server

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// runs is the directory of all runs of a cache.
func runs(cache string) string { return filepath.Join(cache, "localstack-runs") }

// Find returns the server of a name that runs in the cache, or NotFound. Its
// process was started by another one, so Stop works and nothing is waited for.
func Find(cache, name string) (*Server, error) {
	dir := filepath.Join(runs(cache), name)
	r, ok := read(dir)
	if !ok {
		return nil, problem.New(problem.NotFound, "no server %q runs", name)
	}
	s := serverAt(dir, r.Port)
	s.PID, s.Plugin = r.PID, r.Plugin
	return s, nil
}

// Clean ends the processes that killed runs left in the cache and removes their
// directories. A run whose server lives is left alone.
func Clean(cache string) error {
	entries, err := os.ReadDir(runs(cache))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		dir := filepath.Join(runs(cache), entry.Name())
		if _, ok := read(dir); ok {
			continue
		}
		if err := errors.Join(sweep(dir), os.RemoveAll(dir)); err != nil {
			return err
		}
	}
	return nil
}

// read returns what the run in dir says of itself, if its server lives: a
// process of that number which is not of this run is another one's, to which
// the system gave the number again.
func read(dir string) (record, bool) {
	var r record
	content, err := os.ReadFile(filepath.Join(dir, "run.json"))
	if err != nil || json.Unmarshal(content, &r) != nil {
		return record{}, false
	}
	all, err := running(dir)
	return r, err == nil && alive(all, r.PID)
}

func alive(all []process, pid int) bool {
	return slices.ContainsFunc(all, func(p process) bool { return p.pid == pid })
}
