package team

import (
	"slices"
	"testing"
)

func TestArtifactsAreTheFilesOfAText(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                      {},
		"nothing":                               {},
		"see src/b.rs and .vault/a.md":          {".vault/a.md", "src/b.rs"},
		"src/lib.rs.":                           {"src/lib.rs"},
		"src/lib.rs, src/main.rs,src/x":         {"src/lib.rs", "src/main.rs", "src/x"},
		"src/x src/x (src/x)":                   {"src/x"},
		"'tests/a_b-c.py' \"README.md\" `x.md`": {"README.md", "tests/a_b-c.py", "x.md"},
		"src/größe.rs: done":                    {"src/größe.rs"},
		`src\win\a.rs`:                          {"src/win/a.rs"},
		"**src/x.rs**":                          {},
		"https://example.com/README.md":         {},
		"mysrc/x src/ .md":                      {},
		"Cargo.toml; crates/a":                  {"Cargo.toml", "crates/a"},
		"../../etc/x.md /etc/y.md src/../z":     {"../../etc/x.md", "/etc/y.md", "src/../z"},
		"src/a\xffsrc/b":                        {},
		"\xff src/a":                            {"src/a"},
	} {
		if got := FindArtifacts(text); !slices.Equal(got, want) {
			t.Errorf("FindArtifacts(%q) = %q, want %q", text, got, want)
		}
	}
	for path, want := range map[string]bool{"../../etc/x.md": true, "/etc/y.md": true, "src/../z": true, "src/a..b": false, ".vault/a.md": false} {
		if got := isUnverified(path); got != want {
			t.Errorf("isUnverified(%q) = %t", path, got)
		}
	}
}
