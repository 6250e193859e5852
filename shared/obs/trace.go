package obs

import "strings"

// TraceHeader is the header that carries a trace id from service to service.
const TraceHeader = "X-Amzn-Trace-Id"

// TraceID takes the trace id out of a TraceHeader: the Root, if it has the
// form of one. The header may be of a caller's making, so that everything else
// in it is dropped.
func TraceID(header string) string {
	for part := range strings.SplitSeq(header, ";") {
		root, ok := strings.CutPrefix(strings.TrimSpace(part), "Root=")
		if ok && isTrace(root) {
			return root
		}
	}
	return ""
}

// isTrace: version 1, eight hex digits of time, twenty-four at random.
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
