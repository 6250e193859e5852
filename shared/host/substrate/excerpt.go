package substrate

import (
	"io"
	"regexp"
	"strings"
	"unicode"
)

const MaxExcerptBytes = 500

type HeadReader struct {
	io.Reader
	Head []byte
}

func (b *HeadReader) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.Head = append(b.Head, p[:min(n, 2*MaxExcerptBytes-len(b.Head))]...)
	return n, err
}

const redacted = "[redacted]"

// secretPatterns redact a match except its first group.
var secretPatterns = []*regexp.Regexp{
	regexp.MustCompile(`(?i)(\b(?:bearer|basic)\s+)[^\s"',;]+`),
	regexp.MustCompile(`(?i)((?:authorization|api[-_ ]?key|access[-_ ]?key|token|secret|passw(?:or)?d|pwd|cookie|credential|session|signature)[a-z_-]*\\?["']?\s*(?:[:=]|\bis\b)\s*\\?["']?)[^\s"',;&}\\]+`),
	regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/@"']+@`),
	regexp.MustCompile(`()\b(?:sk|pk|rk|gh[a-z]|glpat|xox[a-z]|hf|npm|vac_[a-z]+|agnt)[-_][A-Za-z0-9_-]{8,}`),
	regexp.MustCompile(`()\b(?:AKIA|ASIA)[0-9A-Z]{12,}`),
	regexp.MustCompile(`()\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)*`),
	regexp.MustCompile(`()[A-Za-z0-9+/_=-]{32,}`),
}

// A token count such as "prompt_tokens": 12 looks like a named secret.
var (
	tokenCountName  = regexp.MustCompile(`(?i)tokens|token_?count`)
	tokenCountValue = regexp.MustCompile(`^(?:-?[0-9][0-9.]*|[{\[]+|null)$`)
)

func Truncate(text string, maxBytes int) string {
	return strings.ToValidUTF8(text[:min(len(text), maxBytes)], "")
}

// Excerpt returns the start of a text without anything that looks like a secret.
func Excerpt(body []byte) string {
	// If Excerpt truncated first, a secret that crosses the limit would not be recognized.
	s := strings.ToValidUTF8(string(body[:min(len(body), 2*MaxExcerptBytes)]), "\uFFFD")
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }), " ")
	return Truncate(replaceSecrets(s), MaxExcerptBytes)
}

func Redact(text string, maxBytes int) string {
	s := replaceSecrets(Truncate(text, maxBytes+MaxExcerptBytes))
	if len(text) > maxBytes+MaxExcerptBytes { // the end may be an incomplete secret
		s = s[:max(len(s)-MaxExcerptBytes, 0)]
	}
	return Truncate(s, maxBytes)
}

func replaceSecrets(s string) string {
	for _, re := range secretPatterns {
		s = re.ReplaceAllStringFunc(s, func(match string) string {
			prefix := re.FindStringSubmatch(match)[1]
			if tokenCountName.MatchString(prefix) && tokenCountValue.MatchString(match[len(prefix):]) {
				return match
			}
			return prefix + redacted
		})
	}
	return s
}
