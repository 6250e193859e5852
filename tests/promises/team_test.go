package promises

import (
	"strings"
	"testing"
)

// part2 marks checks, or parts of checks, that need the file operations of hosted agents. They are not built yet.
const part2 = "part 2"

// teams are the checks of teams of agents, by their numbers: what each asks, the tests that prove it ("DIR NAME"), and
// what is left for part 2.
var teams = map[int]struct {
	asks  string
	tests []string
	later string
}{
	90: {"five tools with titles, annotations and required arguments", []string{"shared/front/teamapi TestTheToolsHaveTheTitlesAndHintsOfVaultspec"}, ""},
	91: {"list_agents: names, tiers, descriptions and a hint; none is an empty list", []string{
		"shared/front/teamapi TestTheResultsOfTheTools", "shared/front/teamapi TestTheListOfAgentsMayBeEmpty",
	}, ""},
	92: {"dispatch_agent returns a taskId at once; the mode is the argument, the default or read-write", []string{
		"shared/front/teamapi TestACanceledTaskStopsItsAgent", "shared/front/teamapi TestTheModeOfATaskIsItsArgumentsOrItsOwners",
	}, ""},
	93: {"unknown agent, max_turns 0, budget -1 and mode x are errors with fixed words", []string{
		"shared/front/teamapi TestTheWordsOfTheToolsHaveNoHints", "shared/front/teamapi TestEachRefusalHasItsWords",
	}, ""},
	94: {"a path of a .md file is replaced by its text, a missing or outer path is text", []string{"cmd/vacancy/cli/teamcmd TestATaskNamesAFileOfTheWorkingDirectory"}, ""},
	95: {"status and result: summary, response, artifacts, duration, error; unknown is not found", []string{
		"shared/host/team TestTheResultOfATask", "shared/front/teamapi TestTheResultsOfTheTools",
	}, part2 + ": the lock"},
	96: {"cancel stops the agent; a completed task is an error, an unknown one is not found", []string{
		"shared/front/teamapi TestACanceledTaskStopsItsAgent", "shared/front/teamapi TestStatesOfATask",
	}, ""},
	97:  {"get_locks shows the lock of a read-only task", nil, part2},
	98:  {"the lock ends with the task, however it ends", nil, part2},
	99:  {"a second lock is a warning, waits or is an error", nil, part2},
	100: {"a write below a lock of another task is denied", nil, part2},
	101: {"a finished task expires after its lifetime, an unfinished one does not", []string{
		"shared/front/teamapi TestAFinishedTaskCanBeReadForTheLifetimeOfItsAccount",
	}, ""},
	102: {"the rules of transitions", []string{"shared/host/a2a/task TestATaskPassesOnlyToTheStatesOfTheTable", "shared/front/teamapi TestStatesOfATask"}, ""},
	103: {"tasks are in the store: another instance, a restart", []string{"shared/front/teamapi TestATaskIsInTheStore"}, ""},
	104: {"agents://{name} is listed and read; an unknown name is an error", []string{"shared/front/teamapi TestAnAgentIsAResourceWithDollars"}, ""},
	105: {"a new agent is listed, and the stdio server says so", []string{
		"shared/front/teamapi TestAnAgentIsAResourceWithDollars", "shared/front/mcpserver/mcprelay TestTheClientHearsOfChangesOfTheAgents",
	}, ""},
	106: {"vacancy mcp config writes what starts a working server", []string{"tests/interop TestMCPInspector"}, ""},
	107: {"artifacts of the text and of the written files", []string{"shared/host/team TestArtifactsAreTheFilesOfAText"}, part2 + ": the written files"},
	108: {"read-only adds a banner to the prompt, read-write leaves the text unchanged", []string{"shared/front/teamapi TestTheResultsOfTheTools"}, part2 + ": the banner"},
	109: {"logs of a session", nil, part2},
	110: {"an account neither sees nor changes tasks of another", []string{"shared/front/teamapi TestATaskBelongsToItsOwnerAlone"}, ""},
	111: {"two tasks of one agent share no memory", []string{"shared/front/teamapi TestATaskAndItsMessagesAreNotInTheMemoryOfAnother"}, ""},
	112: {"vacancy run prints the response, and needs a goal or a plan", []string{
		"cmd/vacancy/cli/teamcmd TestRunFollowsATaskToItsEnd", "cmd/vacancy/cli TestRunNeedsAGoal",
	}, ""},
}

func TestEveryCheckOfTeamsHasItsTest(t *testing.T) {
	const first, last = 90, 112
	for n := first; n <= last; n++ {
		c, ok := teams[n]
		if !ok || c.asks == "" || len(c.tests) == 0 && c.later != part2 {
			t.Errorf("check %d has no test, and is not a check of part 2", n)
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
