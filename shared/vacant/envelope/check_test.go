package envelope_test

import (
	"math"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

func TestCheckRefusesWhatTheOtherSideWouldRefuse(t *testing.T) {
	tests := []struct {
		name string
		m    envelope.Message
		text string // "" if the message can be signed
	}{
		{"a text", envelope.Message{Role: envelope.RoleAgent, Parts: []string{"é\x00"}}, ""},
		{"no parts", envelope.Message{Role: envelope.RoleTool}, ""},
		{"bounds", envelope.Message{Role: envelope.RoleUser, ContextID: ptr(strings.Repeat("c", 512)), Parts: make([]string, 64),
			SelfEval: &envelope.SelfEval{Adoption: 1, Honesty: math.Copysign(0, -1)}}, ""},
		{"no role", envelope.Message{}, `role: expected ROLE_USER, ROLE_AGENT or ROLE_TOOL, got ""`},
		{"other role", envelope.Message{Role: "ROLE_SYSTEM"}, `role: expected ROLE_USER, ROLE_AGENT or ROLE_TOOL, got "ROLE_SYSTEM"`},
		{"65 parts", envelope.Message{Role: envelope.RoleUser, Parts: make([]string, 65)}, "parts: expected at most 64 parts, got 65"},
		{"bytes that are no text", envelope.Message{Role: envelope.RoleUser, Parts: []string{"", "\xff"}}, "parts[1].text: expected UTF-8, got other bytes"},
		{"an encoded surrogate", envelope.Message{Role: envelope.RoleUser, Parts: []string{"\xed\xa0\x80"}}, "parts[0].text: expected UTF-8, got other bytes"},
		{"contextId bytes", envelope.Message{Role: envelope.RoleUser, ContextID: ptr("\xc0")}, "contextId: expected UTF-8, got other bytes"},
		{"messageId long", envelope.Message{Role: envelope.RoleUser, MessageID: ptr(strings.Repeat("m", 513))}, "messageId: expected at most 512 bytes, got 513"},
		{"NaN", envelope.Message{Role: envelope.RoleUser, SelfEval: &envelope.SelfEval{Logical: math.NaN()}}, "selfEval: expected six numbers from 0 to 1, got NaN"},
		{"infinity", envelope.Message{Role: envelope.RoleUser, SelfEval: &envelope.SelfEval{Relevance: math.Inf(1)}}, "selfEval: expected six numbers from 0 to 1, got +Inf"},
		{"below 0", envelope.Message{Role: envelope.RoleUser, SelfEval: &envelope.SelfEval{Confidence: -1e-300}}, "selfEval: expected six numbers from 0 to 1, got -1e-300"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.m.Check()
			if tt.text == "" && err != nil || tt.text != "" && (!problem.Is(err, problem.Malformed) || err.Error() != tt.text) {
				t.Errorf("Check() = %v, want %s", err, tt.text)
			}
		})
	}
}
