package promises

import (
	"strings"
	"testing"
)

// teams are the checks of teams of agents, by their numbers: what each asks, and the tests that prove it ("DIR NAME").
var teams = map[int]struct {
	asks  string
	tests []string
}{
	80: {"the same agent behaves alike at each provider", []string{
		"shared/host/substrate/anthropic TestContract", "shared/host/substrate/bedrock TestContract", "shared/host/substrate/gemini TestContract",
		"shared/host/substrate/openai TestContract",
	}},
	81: {"a tier is a model of the table; override before file before tier", []string{
		"shared/host/substrate/definition TestATiersModelIsChosenByATable", "shared/host/answer TestTheSettingsOfATaskAreApplied",
	}},
	82: {"max_turns ends the loop; a budget of 0 asks no model, another is not exceeded", []string{
		"shared/host/substrate/loop TestTheLoopEndsAfterItsTurns", "shared/host/answer TestABudgetOfNothingSendsNothing", "shared/host/answer TestATaskSpendsAtMostItsBudget",
	}},
	83: {"a tool that is not listed or disallowed is denied", []string{"shared/host/substrate/loop TestACallThatMayNotRunIsTold"}},
	84: {"effort, JSON and the fallback model", []string{
		"shared/host/substrate/loop TestATurnIsAskedAgainOnceIfNothingOfItWasSeen", "shared/host/substrate/loop TestAnAnswerInJSONIsCheckedAndRepairedOnce", "shared/host/answer TestTheSettingsOfATaskAreApplied",
	}},
	85: {"include_dirs outside of the root are dropped with a warning, others are kept", []string{
		"cmd/vacancy/agentfile TestAFileIsTheAgentThatItSays", "shared/host/answer TestAnAgentReadsOnlyItsFolders",
	}},
	86: {"a setting that the host does not support is a warning", []string{"cmd/vacancy/agentfile TestAFileIsTheAgentThatItSays"}},
	87: {"the prompt has instructions, persona and rules, with their includes", []string{
		"cmd/vacancy/agentfile TestThePromptHasItsPartsInOrder", "cmd/vacancy/agentfile TestIncludesAreResolvedOrMarked",
	}},
	88: {"read-only: no shell, and no writes outside of .vault/; the run goes on", []string{
		"shared/host/substrate/loop TestTheGateOfFilesAndShell", "shared/host/answer TestAReadOnlyTaskWritesOnlyBelowTheVault",
	}},
	89: {"read-write: the same calls succeed, but no host runs a shell", []string{"shared/host/answer TestAReadWriteTaskUsesEachTool"}},
	90: {"five tools with titles, annotations and required arguments", []string{"shared/front/teamapi TestTheToolsHaveTheTitlesAndHintsOfVaultspec"}},
	91: {"list_agents: names, tiers, descriptions and a hint; none is an empty list", []string{
		"shared/front/teamapi TestTheResultsOfTheTools", "shared/front/teamapi TestTheListOfAgentsMayBeEmpty",
	}},
	92: {"dispatch_agent returns a taskId at once; the mode is the argument, the default or read-write", []string{
		"shared/front/teamapi TestACanceledTaskStopsItsAgent", "shared/front/teamapi TestTheModeOfATaskIsItsArgumentsOrItsOwners",
	}},
	93: {"unknown agent, max_turns 0, budget -1 and mode x are errors with fixed words", []string{
		"shared/front/teamapi TestTheWordsOfTheToolsHaveNoHints", "shared/front/teamapi TestEachRefusalHasItsWords",
	}},
	94: {"a path of a .md file is replaced by its text, a missing or outer path is text", []string{"cmd/vacancy/cli/teamcmd TestATaskNamesAFileOfTheWorkingDirectory"}},
	95: {"status and result: summary, response, artifacts, duration, error; unknown is not found", []string{
		"shared/host/team TestTheResultOfATask", "shared/front/teamapi TestTheResultsOfTheTools",
	}},
	96: {"cancel stops the agent; a completed task is an error, an unknown one is not found", []string{
		"shared/front/teamapi TestACanceledTaskStopsItsAgent", "shared/front/teamapi TestStatesOfATask",
	}},
	97:  {"get_locks shows the lock of a read-only task", []string{"shared/host/answer TestALockLastsAsLongAsItsTask", "shared/front/teamapi TestGetLocksShowsTheLocksOfAnAccount"}},
	98:  {"the lock ends with the task, however it ends", []string{"shared/host/answer TestALockLastsAsLongAsItsTask", "shared/host/answer TestALockedFolderIsDeniedToOthers", "shared/host/answer TestManyTasksChangeOneFile"}},
	99:  {"a second lock is a warning, waits or is an error", []string{"shared/host/answer TestALockLastsAsLongAsItsTask"}},
	100: {"a write below a lock of another task is denied", []string{"shared/host/answer TestALockedFolderIsDeniedToOthers"}},
	101: {"a finished task expires after its lifetime, an unfinished one does not", []string{
		"shared/front/teamapi TestAFinishedTaskCanBeReadForTheLifetimeOfItsAccount",
	}},
	102: {"the rules of transitions", []string{"shared/host/a2a/task TestATaskPassesOnlyToTheStatesOfTheTable", "shared/front/teamapi TestStatesOfATask"}},
	103: {"tasks are in the store: another instance, a restart", []string{"shared/front/teamapi TestATaskIsInTheStore"}},
	104: {"agents://{name} is listed and read; an unknown name is an error", []string{"shared/front/teamapi TestAnAgentIsAResourceWithDollars"}},
	105: {"a new agent is listed, and the stdio server says so", []string{
		"shared/front/teamapi TestAnAgentIsAResourceWithDollars", "shared/front/mcpserver/mcprelay TestTheClientHearsOfChangesOfTheAgents",
	}},
	106: {"vacancy mcp config writes what starts a working server", []string{"tests/interop TestMCPInspector"}},
	107: {"artifacts of the text and of the written files", []string{"shared/host/team TestArtifactsAreTheFilesOfAText", "shared/host/answer TestAReadOnlyTaskWritesOnlyBelowTheVault"}},
	108: {"read-only adds a banner to the prompt, read-write leaves the text unchanged", []string{"shared/front/teamapi TestTheResultsOfTheTools", "shared/host/answer TestAReadOnlyTaskHasABanner"}},
	109: {"logs of a session", []string{"shared/host/answer TestAReadOnlyTaskWritesOnlyBelowTheVault"}},
	110: {"an account neither sees nor changes tasks of another", []string{"shared/front/teamapi TestATaskBelongsToItsOwnerAlone", "shared/front/teamapi TestGetLocksShowsTheLocksOfAnAccount"}},
	111: {"two tasks of one agent share no memory", []string{"shared/front/teamapi TestATaskAndItsMessagesAreNotInTheMemoryOfAnother", "shared/host/answer TestAVersionReadInOneTaskIsNotKnownInAnother"}},
	112: {"vacancy run prints the response, and needs a goal or a plan", []string{
		"cmd/vacancy/cli/teamcmd TestRunFollowsATaskToItsEnd", "cmd/vacancy/cli TestRunNeedsAGoal",
	}},
}

func TestEveryCheckOfTeamsHasItsTest(t *testing.T) {
	const first, last = 80, 112
	for n := first; n <= last; n++ {
		c, ok := teams[n]
		if !ok || c.asks == "" || len(c.tests) == 0 {
			t.Errorf("check %d has no test", n)
		}
		for _, test := range c.tests {
			if dir, name, _ := strings.Cut(test, " "); !has(t, dir, name) {
				t.Errorf("check %d (%s): %s has no %s", n, c.asks, dir, name)
			}
		}
	}
	if len(teams) != last-first+1 {
		t.Errorf("%d checks, want %d", len(teams), last-first+1)
	}
}
