package server

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

type process struct {
	pid  int
	args []string
}

// Prefixes of command-line options that mark the processes of a run. The directory of the run
// follows the prefix.
const (
	pythonMark = "vacancy="
	javaMark   = "-Dvacancy.run="
)

// belongsTo ignores paths below dir in later arguments, because an editor that has a file of the
// run open must not be killed.
func (p process) belongsTo(dir string) bool {
	return len(p.args) > 0 && (strings.HasPrefix(p.args[0], dir+string(filepath.Separator)) ||
		slices.Contains(p.args, pythonMark+dir) || slices.Contains(p.args, javaMark+dir))
}

func listProcesses() ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil || !fileExists("/proc/self/cmdline") {
		return listProcessesByPS()
	}
	var procs []process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err != nil || len(line) == 0 {
			continue // the process has ended, or is a kernel thread
		}
		procs = append(procs, process{pid, strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")})
	}
	return procs, nil
}

func listProcessesByPS() ([]process, error) {
	// Arguments are split at spaces, because the paths of a run contain none.
	out, err := exec.Command("ps", "-axww", "-o", "pid=,command=").Output()
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	return parsePS(string(out)), nil
}

func parsePS(out string) (procs []process) {
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		if pid, err := strconv.Atoi(words[0]); err == nil && pid > 0 {
			procs = append(procs, process{pid, words[1:]})
		}
	}
	return procs
}

func listRunProcesses(dir string) ([]process, error) {
	procs, err := listProcesses()
	return slices.DeleteFunc(procs, func(p process) bool { return !p.belongsTo(dir) }), err
}

func killRun(dir string) error {
	// The limit is twice the time that a loaded machine took to end a Java process.
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		procs, err := listRunProcesses(dir)
		if err != nil || len(procs) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v of %s do not end", pids(procs), dir)
		}
		for _, p := range procs {
			if err := kill(p.pid); err != nil {
				return err
			}
		}
	}
}

func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending process %d: %w", pid, err)
	}
	return nil
}

func pids(procs []process) []int {
	numbers := make([]int, len(procs))
	for i, p := range procs {
		numbers[i] = p.pid
	}
	return numbers
}
