package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the version of this program",
		Example: "  vacancy version\n  vacancy version --json",
		Args:    arguments(0, 0),
		RunE:    func(*cobra.Command, []string) error { return a.show(build()) },
	}
}

// buildResult is the build of this program.
type buildResult struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	System  string `json:"system"`
}

func build() buildResult {
	b := buildResult{Version: "(devel)", Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Commit = s.Value
		}
	}
	return b
}

func (b buildResult) text(w io.Writer) { fmt.Fprintln(w, version()) }

// version is the build in one line.
func version() string {
	b, commit := build(), ""
	if b.Commit != "" {
		commit = " " + b.Commit[:min(12, len(b.Commit))]
	}
	return fmt.Sprintf("vacancy %s%s %s %s", b.Version, commit, b.Go, b.System)
}
