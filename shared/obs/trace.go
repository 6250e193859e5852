package obs

import "strings"

const TraceHeader = "X-Amzn-Trace-Id"

// TraceID returns the Root of a TraceHeader if it is well-formed. The rest of the header may come
// from the caller.
func TraceID(header string) string {
	for part := range strings.SplitSeq(header, ";") {
		root, ok := strings.CutPrefix(strings.TrimSpace(part), "Root=")
		if ok && isTraceRoot(root) {
			return root
		}
	}
	return ""
}

func isTraceRoot(s string) bool {
	const pattern = "1-xxxxxxxx-xxxxxxxxxxxxxxxxxxxxxxxx"
	if len(s) != len(pattern) {
		return false
	}
	for i := range len(pattern) {
		switch c := s[i]; {
		case pattern[i] != 'x' && c != pattern[i]:
			return false
		case pattern[i] == 'x' && (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return false
		}
	}
	return true
}
