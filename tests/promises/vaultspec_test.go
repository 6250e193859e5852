package promises

import "testing"

// vaultspec are the checks of discovery and of agents in editors.
var vaultspec = checks{
	47: {"Gemini CLI's discovery files: front matter, settings that keep other keys, a second run without a change, refusals", []string{
		"tests/e2e acp.txtar", "cmd/vacancy/mcpclients TestASettingIsMergedInPlace", "cmd/vacancy/mcpclients TestACrashLeavesTheOldFileOrTheNewOne",
		"cmd/vacancy/cli/callcmd TestNamesOfGeminiAgents", "tests/interop TestGeminiLoadsADiscoveryFile",
	}},
	60: {"the handshake on standard input and output, and the end of the input", []string{"cmd/vacancy/acpbridge TestTheHandshake", "tests/interop TestEditorsByACP"}},
	61: {"new session, prompt and stop reasons; errors of sessions and of the agent", []string{
		"cmd/vacancy/acpbridge TestAPromptIsAnswered", "cmd/vacancy/acpbridge TestRequestsThatAreRefused", "cmd/vacancy/acpbridge TestARefusalHasItsReason",
	}},
	62: {"thoughts and tool calls, by the same id", []string{"cmd/vacancy/acpbridge TestThoughtsAndToolCalls", "cmd/vacancy/acpbridge TestEachToolCallHasItsID"}},
	63: {"each text once, also over a lost connection", []string{"cmd/vacancy/acpbridge TestAPromptIsAnswered", "cmd/vacancy/acpbridge TestALostConnectionLosesNoText"}},
	64: {"a cancellation: no update after it, the agent stops, the next prompt works", []string{"cmd/vacancy/acpbridge TestACanceledPrompt"}},
	65: {"sessions after a restart: list, load, resume, fork; an unknown or foreign one is an error", []string{
		"cmd/vacancy/acpbridge TestSessionsOutliveTheProgram", "cmd/vacancy/acpbridge TestExpiredTextsAreOneLine", "cmd/vacancy/acpbridge TestRequestsThatAreRefused",
	}},
	66: {"mode and model of a session, by each method; an unknown mode is an error", []string{"cmd/vacancy/acpbridge TestSettingsOfASession"}},
	67: {"authenticate and the extension methods", []string{"cmd/vacancy/acpbridge TestTheHandshake", "cmd/vacancy/acpbridge TestRequestsThatAreRefused", "tests/e2e acp.txtar"}},
}

func TestEveryCheckOfEditorsHasItsTest(t *testing.T) { findTests(t, vaultspec) }
