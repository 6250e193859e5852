package obs

import "strings"

// TraceHeader carries a trace id between services.
const TraceHeader = "X-Amzn-Trace-Id"

// TraceID returns the Root of a TraceHeader if it is well formed. The header
// may come from the caller, so everything else in it is dropped.
func TraceID(header string) string {
	for part := range strings.SplitSeq(header, ";") {
		root, ok := strings.CutPrefix(strings.TrimSpace(part), "Root=")
		if ok && isTrace(root) {
			return root
		}
	}
	return ""
}

// isTrace checks the form: version 1, eight hex digits of time, twenty-four
// random ones.
func isTrace(s string) bool {
	const form = "1-xxxxxxxx-xxxxxxxxxxxxxxxxxxxxxxxx"
	if len(s) != len(form) {
		return false
	}
	for i := range len(form) {
		switch c := s[i]; {
		case form[i] != 'x' && c != form[i]:
			return false
		case form[i] == 'x' && (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return false
		}
	}
	return true
}
