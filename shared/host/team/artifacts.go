package team

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Artifacts returns the file paths in a text, sorted: paths below the folders of sources, and files with the endings
// of documents and sources.
func Artifacts(text string) []string {
	found := []string{}
	before := ' '
	for text != "" {
		end := strings.IndexFunc(text, func(c rune) bool { return !isPathLetter(c) })
		if end < 0 {
			end = len(text)
		}
		after, size := utf8.DecodeRuneInString(text[end:])
		path := strings.TrimRight(strings.ReplaceAll(text[:end], `\`, "/"), ".")
		startsWord := unicode.IsSpace(before) || strings.ContainsRune("\"'`(,", before)
		endsWord := size == 0 || unicode.IsSpace(after) || strings.ContainsRune("\"'`),;:", after)
		if startsWord && endsWord && isArtifact(path) {
			found = append(found, path)
		}
		before, text = after, text[end+size:]
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func isPathLetter(c rune) bool {
	return unicode.IsLetter(c) || unicode.IsDigit(c) || strings.ContainsRune(`_./\-`, c)
}

func isArtifact(path string) bool {
	for _, folder := range []string{".vault/", ".vaultspec/", "src/", "crates/", "test/", "tests/"} {
		if strings.HasPrefix(path, folder) && len(path) > len(folder) {
			return true
		}
	}
	return slices.ContainsFunc([]string{".md", ".rs", ".toml", ".py"}, func(ending string) bool {
		return strings.HasSuffix(path, ending) && len(path) > len(ending)
	})
}

// isUnverified reports whether a path is absolute or has "..", so it may lead out of the agent's directory.
func isUnverified(path string) bool {
	return strings.HasPrefix(path, "/") || slices.Contains(strings.Split(path, "/"), "..")
}
