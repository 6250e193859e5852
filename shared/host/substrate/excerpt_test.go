package substrate_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
)

func TestAnExcerptShowsWhatIsWrongAndNoSecret(t *testing.T) {
	for in, want := range map[string]string{
		"":                 "",
		"division by zero": "division by zero",
		"a\n\tb  \x00c":    "a b c",
		"\xff":             "\uFFFD",
		"model is overloaded, status 529, request 17":  "model is overloaded, status 529, request 17",
		"Authorization: Bearer abc.def":                "[redacted]",
		`{"error":"bad key sk-live-0123456789abcdef"}`: `{"error":"bad key [redacted]"}`,
		`{"api_key": "hunter2", "line": 3}`:            `{"api_key": "[redacted]", "line": 3}`,
		`{\"password\":\"hunter2\"}`:                   `{\"password\":\"[redacted]\"}`,
		"password=hunter2&user=x":                      "password=[redacted]&user=x",
		"the secret is hunter2.":                       "the secret is [redacted]",
		"postgres://user:hunter2@db.internal/x":        "postgres://[redacted]db.internal/x",
		"key AKIAIOSFODNN7EXAMPLE is wrong":            "key [redacted] is wrong",
		`{"usage":{"prompt_tokens":12,"total_tokens": 19.0,"prompt_tokens_details":{"cached_tokens":4}}}`: `{"usage":{"prompt_tokens":12,"total_tokens": 19.0,"prompt_tokens_details":{"cached_tokens":4}}}`,
		`{"usageMetadata":{"candidatesTokenCount": 12}}`:                                                  `{"usageMetadata":{"candidatesTokenCount": 12}}`,
		`max_tokens=500 is too much`:                                                                      `max_tokens=500 is too much`,
		`{"access_tokens":"hunter2","token":123456}`:                                                      `{"access_tokens":"[redacted]","token":[redacted]}`,
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln":                                                       "[redacted]",
		"seed " + strings.Repeat("0a", 32):                                                                "seed [redacted]",
	} {
		got := substrate.Excerpt([]byte(in))
		if in == "Authorization: Bearer abc.def" {
			if strings.Contains(got, "abc") {
				t.Errorf("Excerpt(%q) = %q, want no token", in, got)
			}
			continue
		}
		if got != want {
			t.Errorf("Excerpt(%q) = %q, want %q", in, got, want)
		}
	}
	if got := substrate.Excerpt([]byte(strings.Repeat("\u00fc ", 5000))); len(got) > substrate.MaxExcerptBytes || !utf8.ValidString(got) {
		t.Errorf("Excerpt() of much = %d bytes", len(got))
	}
}

func FuzzExcerpt(f *testing.F) {
	f.Add([]byte("token: abc"), "abcdefgh")
	f.Add([]byte("x"), "0123")
	f.Fuzz(func(t *testing.T, before []byte, secret string) {
		if got := substrate.Excerpt(before); len(got) > substrate.MaxExcerptBytes || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r") {
			t.Errorf("Excerpt(%q) = %q", before, got)
		}
		for _, r := range secret {
			if !('a' <= r && r <= 'z' || '0' <= r && r <= '9') {
				return
			}
		}
		if len(secret) < 4 || len(before) > 100 || strings.Contains("redactedpassword", secret) {
			return
		}
		text := strings.ReplaceAll(string(before), secret, "") + " password: " + secret
		if !strings.Contains(strings.ToValidUTF8(string(before), ""), secret) && strings.Contains(substrate.Excerpt([]byte(text)), "password: "+secret) {
			t.Errorf("Excerpt(%q) shows %q", text, secret)
		}
	})
}
