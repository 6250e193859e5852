package team

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// FindArtifacts returns the file paths in a text, sorted.
func FindArtifacts(text string) []string {
	paths := []string{}
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
			paths = append(paths, path)
		}
		before, text = after, text[end+size:]
	}
	slices.Sort(paths)
	return slices.Compact(paths)
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
	return slices.ContainsFunc([]string{".md", ".rs", ".toml", ".py"}, func(extension string) bool {
		return strings.HasSuffix(path, extension) && len(path) > len(extension)
	})
}

func isUnverified(path string) bool {
	return strings.HasPrefix(path, "/") || slices.Contains(strings.Split(path, "/"), "..")
}
