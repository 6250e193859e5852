package team

import (
	"slices"
	"strings"
	"unicode"
)

// Artifacts returns the paths of files that a text names, sorted: paths below the folders of sources, and files with
// the endings of documents and sources. Absolute paths and paths with ".." are left out.
func Artifacts(text string) []string {
	found := []string{}
	before := ' '
	for text != "" {
		end := strings.IndexFunc(text, func(c rune) bool { return !isPathLetter(c) })
		if end < 0 {
			end = len(text)
		}
		token, rest := text[:end], []rune(text[end:min(len(text), end+4)])
		after := ' '
		if len(rest) > 0 {
			after = rest[0]
		}
		path := strings.TrimRight(strings.ReplaceAll(token, `\`, "/"), ".")
		if (unicode.IsSpace(before) || strings.ContainsRune("\"'`(,", before)) && (unicode.IsSpace(after) || strings.ContainsRune("\"'`),;:", after)) && isArtifact(path) {
			found = append(found, path)
		}
		if text = text[end:]; len(rest) > 0 {
			before, text = after, text[len(string(after)):]
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func isPathLetter(c rune) bool {
	return unicode.IsLetter(c) || unicode.IsDigit(c) || strings.ContainsRune(`_./\-`, c)
}

func isArtifact(path string) bool {
	if strings.HasPrefix(path, "/") || slices.Contains(strings.Split(path, "/"), "..") {
		return false
	}
	for _, folder := range []string{".vault/", ".vaultspec/", "src/", "crates/", "test/", "tests/"} {
		if strings.HasPrefix(path, folder) && len(path) > len(folder) {
			return true
		}
	}
	return slices.ContainsFunc([]string{".md", ".rs", ".toml", ".py"}, func(ending string) bool {
		return strings.HasSuffix(path, ending) && len(path) > len(ending)
	})
}
