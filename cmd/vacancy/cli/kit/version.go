package kit

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
)

type buildResult struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	System  string `json:"system"`
}

func BuildInfo() buildResult {
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

func (b buildResult) Print(w io.Writer) { fmt.Fprintln(w, Version()) }

func Version() string {
	b, commit := BuildInfo(), ""
	if b.Commit != "" && !strings.Contains(b.Version, b.Commit[:min(12, len(b.Commit))]) {
		commit = " " + b.Commit[:min(12, len(b.Commit))]
	}
	return fmt.Sprintf("vacancy %s%s %s %s", b.Version, commit, b.Go, b.System)
}

// BuildID returns the commit or release of this program, or "" if it is unknown.
func BuildID() string {
	b := BuildInfo()
	return cmp.Or(b.Commit[:min(12, len(b.Commit))], strings.TrimSuffix(b.Version, "(devel)"))
}
