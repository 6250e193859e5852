package doctor

import (
	"context"
	"errors"
	"os/exec"
	"strings"
)

type RunFunc func(ctx context.Context, program string, args ...string) (string, error)

func FindTools(ctx context.Context, run RunFunc) []Tool {
	var tools []Tool
	for _, t := range []struct{ name, arg string }{{"go", "version"}, {"node", "--version"}, {"npm", "--version"}} {
		out, err := run(ctx, t.name, t.arg)
		missing := errors.Is(err, exec.ErrNotFound)
		tools = append(tools, Tool{Name: t.name, Version: findVersion(out), Missing: missing || err != nil && out == ""})
	}
	return tools
}

func RunProgram(ctx context.Context, program string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, program, args...).Output()
	return string(out), err
}

// findVersion returns the first word that is a version, without leading letters.
func findVersion(s string) string {
	for _, word := range strings.Fields(s) {
		w := strings.TrimLeft(word, "vgo")
		if w != "" && w[0] >= '0' && w[0] <= '9' && strings.Contains(w, ".") {
			return w
		}
	}
	return ""
}
