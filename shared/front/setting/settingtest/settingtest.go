// Package settingtest lists the values that a reader of settings accepts.
package settingtest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	certificate = "arn:aws:acm:us-east-1:123456789012:certificate/0a1b"
	function    = "arn:aws:lambda:us-east-1:123456789012:function:answers"
)

var candidateTexts = []string{
	"", "0", "1", "-1", "+5", "5", "007", "1e3", "0x10", "0.25", "0.255", "10.5", "$5", "ten",
	"23", "24", "48", "300", "301", "1000", "1001", "10000", "10001", "1000000", "1000001", "87600", "87601",
	"20:40", "0:5", "1:0", "0.001:1", "0.0001:1", "1e3:5", "2000000:1", "1:2:3", "NaN:1", "-1:5", "off", "true", "false", "yes",
	"Dev", "1dev", "a_b", strings.Repeat("a", 12), strings.Repeat("a", 13), strings.Repeat("a", 20), strings.Repeat("a", 21), strings.Repeat("a", 100),
	"arm64", "amd64", "kms", "software", "example.org", "https://example.org", "ops@example.org", "ops@example",
	certificate, strings.Replace(certificate, "us-east-1", "eu-west-1", 1), function, "acme=" + function, "=" + function, "acme=answers",
	"amazon.nova-lite-v1:0", "amazon.nova-lite-v1:0,claude", "0a1b2c3d-0000-0000-0000-000000000000", "message:3", "messages:5", "message:0",
	"500ms", "1s", "15m", "16m", "1s\n", "\xff",
}

// FormatTable calls read for each name with each of candidateTexts, and lists the accepted texts
// and the errors. In an error, TEXT replaces the text.
func FormatTable(names []string, read func(name, text string) error) string {
	var b strings.Builder
	for _, name := range names {
		var accepted, errs []string
		textsByError := map[string][]string{}
		for _, text := range candidateTexts {
			err := read(name, text)
			if err == nil {
				accepted = append(accepted, quoteShort(text))
				continue
			}
			message := strings.TrimSpace(err.Error())
			message = strings.ReplaceAll(message, strconv.Quote(text), "TEXT")
			message = strings.ReplaceAll(message, strings.Repeat("a", 79), "79×a")
			if textsByError[message] == nil {
				errs = append(errs, message)
			}
			textsByError[message] = append(textsByError[message], quoteShort(text))
		}
		fmt.Fprintf(&b, "%s\n  accepts %s\n", name, strings.Join(accepted, " "))
		slices.SortStableFunc(errs, func(x, y string) int { return len(textsByError[y]) - len(textsByError[x]) })
		for i, message := range errs {
			selector := "other texts"
			if i > 0 {
				selector = strings.Join(textsByError[message], " ")
			}
			fmt.Fprintf(&b, "  %s\n    %s\n", selector, strings.ReplaceAll(message, "\n", "\n    "))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func CompareGolden(t testing.TB, path, got string, update bool) {
	t.Helper()
	if update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func quoteShort(text string) string {
	if len(text) > 60 {
		return fmt.Sprintf("%.30q…%d", text, len(text))
	}
	return strconv.Quote(text)
}
