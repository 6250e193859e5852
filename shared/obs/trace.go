package obs

import "strings"

// TraceHeader carries a trace id between services.
const TraceHeader = "X-Amzn-Trace-Id"

// TraceID returns the Root of a TraceHeader if it is well-formed. It ignores the rest of the
// header, which may come from the caller.
func TraceID(header string) string {
	for part := range strings.SplitSeq(header, ";") {
		root, ok := strings.CutPrefix(strings.TrimSpace(part), "Root=")
		if ok && isTrace(root) {
			return root
		}
	}
	return ""
}

func isTrace(s string) bool {
	const form = "1-xxxxxxxx-xxxxxxxxxxxxxxxxxxxxxxxx" // version, hex time, random hex digits
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
