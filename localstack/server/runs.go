package server

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/vacancy-host/vacancy/shared/problem"
)

func runsDir(cacheDir string) string { return filepath.Join(cacheDir, "localstack-runs") }

// Find returns the named server that runs in the cache, or an error of kind NotFound.
func Find(cacheDir, name string) (*Server, error) {
	dir := filepath.Join(runsDir(cacheDir), name)
	r, ok := readLiveRecord(dir)
	if !ok {
		return nil, problem.New(problem.NotFound, "server %q is not running", name)
	}
	s := newServer(dir, r.Port)
	s.PID, s.PluginDir = r.PID, r.Plugin
	return s, nil
}

// Clean ends the processes of killed runs in the cache and removes their directories.
func Clean(cacheDir string) error {
	entries, err := os.ReadDir(runsDir(cacheDir))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		dir := filepath.Join(runsDir(cacheDir), entry.Name())
		if _, ok := readLiveRecord(dir); ok {
			continue
		}
		if err := errors.Join(killRun(dir), os.RemoveAll(dir)); err != nil {
			return err
		}
	}
	return nil
}

func readLiveRecord(dir string) (runRecord, bool) {
	var r runRecord
	content, err := os.ReadFile(filepath.Join(dir, "run.json"))
	if err != nil || json.Unmarshal(content, &r) != nil {
		return runRecord{}, false
	}
	procs, err := listRunProcesses(dir)
	// The system may have reused the process id for a process of another program.
	return r, err == nil && hasPID(procs, r.PID)
}

func hasPID(procs []process, pid int) bool {
	return slices.ContainsFunc(procs, func(p process) bool { return p.pid == pid })
}
