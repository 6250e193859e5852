package doctor

import (
	"context"
	"errors"
	"os/exec"
	"strings"
)

// Ask runs a program and returns its output.
type Ask func(ctx context.Context, program string, args ...string) (string, error)

func Tools(ctx context.Context, ask Ask) []Tool {
	var tools []Tool
	for _, t := range []struct{ name, arg string }{{"go", "version"}, {"node", "--version"}, {"npm", "--version"}} {
		out, err := ask(ctx, t.name, t.arg)
		missing := errors.Is(err, exec.ErrNotFound)
		tools = append(tools, Tool{Name: t.name, Version: versionIn(out), Missing: missing || err != nil && out == ""})
	}
	return tools
}

func Run(ctx context.Context, program string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, program, args...).Output()
	return string(out), err
}

// versionIn returns the first word that is a version, without leading letters.
func versionIn(s string) string {
	for _, word := range strings.Fields(s) {
		w := strings.TrimLeft(word, "vgo")
		if w != "" && w[0] >= '0' && w[0] <= '9' && strings.Contains(w, ".") {
			return w
		}
	}
	return ""
}
