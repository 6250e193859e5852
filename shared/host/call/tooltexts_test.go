package call

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// Without tool texts, an answer's encoding is unchanged. With them it parses to the same message
// and fits into a row.
func TestTextsOfToolsAreBesideTheAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := envelope.Message{Role: envelope.RoleAgent, Parts: []string{strings.Repeat("x", rapid.SampledFrom([]int{0, 10, 250 << 10, 300 << 10, 340 << 10}).Draw(t, "answer"))}}
		var tools []RecordedToolCall
		for range rapid.IntRange(0, MaxToolUses).Draw(t, "tools") {
			text := strings.Repeat("é", rapid.IntRange(0, MaxToolTextBytes/MaxToolUses/4).Draw(t, "text"))
			tools = append(tools, RecordedToolCall{ToolUse{strings.Repeat("n", 64), 12, ToolOK}, text, text + "\x00", rapid.Bool().Draw(t, "cut")})
		}
		bare := encodePayload(&m, "k")
		b := appendTools(encodePayload(&m, "k"), tools)
		got, key, read, err := parsePayloadAndTools(b)
		if err != nil || key != "k" || cmp.Diff(m, got) != "" {
			t.Fatalf("parseSealed() = %v", err)
		}
		if len(tools) == 0 && string(b) != string(bare) {
			t.Fatal("without tools the bytes differ")
		}
		if len(b) > maxSealedBytes && len(b) > len(bare) || len(b)+2<<10 > store.MaxData && len(bare) < 300<<10+100 {
			t.Fatalf("%d bytes with tools, %d without", len(b), len(bare))
		}
		if len(bare)+MaxToolTextBytes+MaxToolUses*100 < maxSealedBytes && cmp.Diff(tools, read) != "" {
			t.Fatalf("tools (-want +got):\n%s", cmp.Diff(tools, read))
		}
		for _, one := range read {
			if !utf8.ValidString(one.Arguments + one.Result) {
				t.Fatalf("%q is cut within a letter", one.Result)
			}
		}
	})
	// Truncated bytes are a parse error, without a panic.
	m := envelope.Message{Role: envelope.RoleAgent, Parts: []string{"x"}}
	whole := appendTools(encodePayload(&m, ""), []RecordedToolCall{{ToolUse{"look", 1, ToolOK}, "{}", "seen", false}})
	bare := len(encodePayload(&m, ""))
	for n := bare + 1; n < len(whole); n++ {
		if _, _, _, err := parsePayloadAndTools(whole[:n]); err == nil {
			t.Errorf("the first %d of %d bytes parse", n, len(whole))
		}
	}
}
