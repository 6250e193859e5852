//go:build unix

package lambda

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// ErrRecursion means that Lambda stopped a function whose messages cause each other. The message goes to the queue of
// dead letters.
var ErrRecursion = errors.New("recursion detected: Lambda stops the function, because its template does not allow recursive loops")

// maxRecursion limits the invocations of a function by a chain of messages.
const maxRecursion = 16

// rootTrace is the trace header of an invocation that no message caused.
const rootTrace = "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Parent=9a9197af755a6419;Sampled=0"

var lineage = regexp.MustCompile(`;Lineage=([^;]*)`)

// traceOf returns the trace header of an invocation by an event, and how often the event's longest chain of messages has
// invoked the function, this invocation included.
func traceOf(function string, event []byte) (header string, count int) {
	var in struct {
		Records []struct {
			Attributes struct{ AWSTraceHeader string }
		}
	}
	_ = json.Unmarshal(event, &in) // other events have no records
	header = rootTrace
	mine := fmt.Sprintf("%08x:", crc32.ChecksumIEEE([]byte(function)))
	others := ""
	for _, r := range in.Records {
		// AWS's SDKs percent-encode the header that they pass on.
		sent, err := url.PathUnescape(r.Attributes.AWSTraceHeader)
		found := lineage.FindStringSubmatch(sent)
		if err != nil || found == nil {
			continue
		}
		n, rest := 0, ""
		for entry := range strings.SplitSeq(found[1], "|") {
			if text, ok := strings.CutPrefix(entry, mine); ok {
				n, _ = strconv.Atoi(text)
			} else {
				rest += "|" + entry
			}
		}
		if n >= count {
			count, others, header = n, rest, lineage.ReplaceAllString(sent, "")
		}
	}
	count++
	return header + ";Lineage=" + mine + strconv.Itoa(count) + others, count
}
