package substrate

import (
	"io"
	"regexp"
	"strings"
	"unicode"
)

// MaxExcerpt bounds an Excerpt in bytes.
const MaxExcerpt = 500

// Beginning is a Reader that keeps the first bytes, as many as an Excerpt needs.
type Beginning struct {
	io.Reader
	Said []byte
}

// Read implements io.Reader.
func (b *Beginning) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.Said = append(b.Said, p[:min(n, 2*MaxExcerpt-len(b.Said))]...)
	return n, err
}

const redacted = "[redacted]"

// secrets are the forms in which secrets stand in error messages: after a name,
// in a URL, with the prefix of a well-known service, or as a long run of random
// characters. The first group of an expression stays.
var secrets = []*regexp.Regexp{
	regexp.MustCompile(`(?i)(\b(?:bearer|basic)\s+)[^\s"',;]+`),
	regexp.MustCompile(`(?i)((?:authorization|api[-_ ]?key|access[-_ ]?key|token|secret|passw(?:or)?d|pwd|cookie|credential|session|signature)[a-z_-]*\\?["']?\s*(?:[:=]|\bis\b)\s*\\?["']?)[^\s"',;&}\\]+`),
	regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/@"']+@`),
	regexp.MustCompile(`()\b(?:sk|pk|rk|gh[a-z]|glpat|xox[a-z]|hf|npm|vac_[a-z]+|agnt)[-_][A-Za-z0-9_-]{8,}`),
	regexp.MustCompile(`()\b(?:AKIA|ASIA)[0-9A-Z]{12,}`),
	regexp.MustCompile(`()\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)*`),
	regexp.MustCompile(`()[A-Za-z0-9+/_=-]{32,}`),
}

// A counter of tokens, such as "prompt_tokens": 12, stands where a secret could. Its value is
// a number, or holds more counters.
var (
	counters = regexp.MustCompile(`(?i)tokens|token_?count`)
	counted  = regexp.MustCompile(`^(?:-?[0-9][0-9.]*|[{\[]+|null)$`)
)

// Cut is the beginning of a text, at most so many bytes of UTF-8.
func Cut(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// Excerpt is the beginning of what an agent answered, for its operator: without
// what looks like a secret, in one line, at most MaxExcerpt bytes.
func Excerpt(body []byte) string {
	// Twice the bytes, so that a secret at the cut is seen whole or not at all.
	s := strings.ToValidUTF8(string(body[:min(len(body), 2*MaxExcerpt)]), "\uFFFD")
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }), " ")
	return Cut(hide(s), MaxExcerpt)
}

// Redact is the beginning of a text without what looks like a secret, at most so many bytes of
// UTF-8.
func Redact(text string, most int) string {
	s := hide(Cut(text, most+MaxExcerpt))
	if len(text) > most+MaxExcerpt { // its end may be the beginning of a secret
		s = s[:max(len(s)-MaxExcerpt, 0)]
	}
	return Cut(s, most)
}

// hide replaces what looks like a secret.
func hide(s string) string {
	for _, re := range secrets {
		s = re.ReplaceAllStringFunc(s, func(found string) string {
			before := re.FindStringSubmatch(found)[1]
			if counters.MatchString(before) && counted.MatchString(found[len(before):]) {
				return found
			}
			return before + redacted
		})
	}
	return s
}
