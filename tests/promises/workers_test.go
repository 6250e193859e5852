package promises

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checks are checks by their numbers: what each asks, and the tests that prove it ("DIR NAME", or the story "tests/e2e
// FILE").
type checks map[int]struct {
	asks  string
	tests []string
}

// workers are the checks of agents elsewhere, of A2A and of providers.
var workers = checks{
	40: {"an agent's card at the well-known path", []string{"shared/front/a2a TestCardsAreCached", "shared/front/a2a TestCardsDeclareKeys"}},
	41: {"a card of an agent's file", []string{"tests/e2e team.txtar", "cmd/vacancy/agentfile TestAFileIsTheAgentThatItSays"}},
	42: {"JSON-RPC and the life of a task", []string{"shared/front/a2a TestEachBadRequestIsRefusedWithItsReason", "tests/interop TestNodeOf03"}},
	43: {"a stream has each text once, in order", []string{"shared/front/a2a TestAStreamIsTheLog"}},
	44: {"a cancellation stops the agent", []string{"shared/host/a2a/task TestCancelStopsTheTurnOnAnotherInstance", "cmd/vacancy/cli/teamcmd TestATurnThatFailsIsAnError"}},
	45: {"an agent's failure is a failed task", []string{"shared/host/a2a/task TestAFailingTurnIsAFailedTask"}},
	46: {"the states of both worlds", []string{"shared/host/a2a/task TestTheEngineHasSixNamesForTheStates"}},
	48: {"a local A2A server", []string{"tests/e2e a2a-serve.txtar"}},
	49: {"two agents are independent", []string{"shared/front/teamapi TestATaskAndItsMessagesAreNotInTheMemoryOfAnother", "cmd/vacancy/cli/teamcmd TestAQuestionEndsATurnAndTheNextTurnAnswersIt"}},
	68: {"the client's files: lines, limits, the root, links, parents", []string{
		"cmd/vacancy/acpclient TestFilesAreReadBelowTheRootOnly", "cmd/vacancy/acpclient TestFilesAreWrittenBelowTheRootOnly",
	}},
	69: {"read-only: writes below .vault only, no terminal", []string{"cmd/vacancy/acpclient TestReadOnlyWritesOnlyBelowVault"}},
	70: {"terminals: create, output, wait, kill, release; 2 MB of output; unknown ids", []string{
		"cmd/vacancy/acpclient TestATerminalRunsACommand", "cmd/vacancy/acpclient TestATerminalThatForksEndsWithItsAgent",
	}},
	71: {"permissions by policy", []string{"cmd/vacancy/acpclient TestPermissionsByPolicy", "cmd/vacancy/acpclient TestReadOnlyNeverAllowsWhatItDenies"}},
	72: {"a local agent does a hosted task; the second worker finishes it if the first had not started it, or with redo=1; otherwise the call is void and refunded", []string{
		"tests/e2e worker.txtar", "shared/host/substrate/worker TestALostLease", "shared/front/workapi TestALeaseThatIsLostBySilenceIsRefunded",
		"shared/front/workapi TestAKeyThatMayNotWorkLosesItsLease", "shared/front/workclient TestATurnSurvivesAHostThatIsAwayForHalfAMinute", "tests/interop TestGeminiCLIIsAWorker",
	}},
	80: {"providers are alike", []string{
		"shared/host/substrate/anthropic TestContract", "shared/host/substrate/bedrock TestContract", "shared/host/substrate/gemini TestContract", "shared/host/substrate/openai TestContract",
	}},
	81: {"a tier chooses a model", []string{"shared/host/substrate/definition TestATiersModelIsChosenByATable", "cmd/vacancy/cli/teamcmd TestTheVersionOfGemini"}},
	82: {"limits of turns and of money", []string{
		"shared/host/substrate/loop TestTheLoopEndsAfterItsTurns", "shared/host/answer TestABudgetOfNothingSendsNothing", "shared/host/substrate/loop TestABudgetEndsACallInItsMiddle",
	}},
	83: {"allowed and disallowed tools", []string{"shared/host/substrate/loop TestToolsThatAreDeniedAreNotOffered", "shared/host/substrate/loop TestACallThatMayNotRunIsTold"}},
	84: {"effort, form of the answer and fallback model", []string{
		"shared/host/answer TestAFallbackModelAnswersForABusyModel", "shared/host/substrate/loop TestAnAnswerInJSONIsCheckedAndRepairedOnce", "cmd/vacancy/cli/teamcmd TestTheProgramOfClaude",
	}},
	85: {"folders outside of the root are left out, with a warning", []string{"cmd/vacancy/cli/teamcmd TestTheProgramOfGemini"}},
	86: {"a setting that a provider lacks is a warning", []string{"cmd/vacancy/cli/teamcmd TestTheProgramOfGemini", "cmd/vacancy/cli/teamcmd TestTheProgramOfClaude"}},
	87: {"the order of the prompt's parts, and includes", []string{"cmd/vacancy/agentfile TestThePromptHasItsPartsInOrder", "cmd/vacancy/agentfile TestIncludesAreResolvedOrMarked"}},
	88: {"read-only blocks the shell and writes outside of .vault", []string{"shared/host/substrate/loop TestTheGateOfFilesAndShell", "cmd/vacancy/acpclient TestReadOnlyWritesOnlyBelowVault"}},
	89: {"read-write allows the same calls", []string{"shared/host/substrate/loop TestTheGateOfFilesAndShell", "cmd/vacancy/acpclient TestFilesAreWrittenBelowTheRootOnly"}},
}

// findTests fails unless each check has tests, and all of them exist.
func findTests(t *testing.T, all checks) {
	t.Helper()
	for n, c := range all {
		if c.asks == "" || len(c.tests) == 0 {
			t.Errorf("check %d has no test", n)
		}
		for _, test := range c.tests {
			dir, name, _ := strings.Cut(test, " ")
			found := false
			if strings.HasSuffix(name, ".txtar") {
				_, err := os.Stat(filepath.Join("..", "..", dir, "testdata", name))
				found = err == nil
			} else {
				found = has(t, dir, name)
			}
			if !found {
				t.Errorf("check %d (%s): %s has no %s", n, c.asks, dir, name)
			}
		}
	}
}

func TestEveryCheckOfWorkersHasItsTest(t *testing.T) { findTests(t, workers) }
