package server

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/vacancy-host/vacancy/shared/problem"
)

func runs(cache string) string { return filepath.Join(cache, "localstack-runs") }

// Find returns the named server that runs in the cache, or an error of kind NotFound. Another
// process started the server, so Stop does not wait for its exit.
func Find(cache, name string) (*Server, error) {
	dir := filepath.Join(runs(cache), name)
	r, ok := readRecord(dir)
	if !ok {
		return nil, problem.New(problem.NotFound, "no server %q runs", name)
	}
	s := serverAt(dir, r.Port)
	s.PID, s.Plugin = r.PID, r.Plugin
	return s, nil
}

// Clean ends the processes of killed runs in the cache and removes their directories. It does not
// touch live runs.
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
		if _, ok := readRecord(dir); ok {
			continue
		}
		if err := errors.Join(sweep(dir), os.RemoveAll(dir)); err != nil {
			return err
		}
	}
	return nil
}

func readRecord(dir string) (record, bool) {
	var r record
	content, err := os.ReadFile(filepath.Join(dir, "run.json"))
	if err != nil || json.Unmarshal(content, &r) != nil {
		return record{}, false
	}
	procs, err := running(dir)
	// The system may have reused the process id for a process of another program.
	return r, err == nil && alive(procs, r.PID)
}

func alive(procs []process, pid int) bool {
	return slices.ContainsFunc(procs, func(p process) bool { return p.pid == pid })
}
