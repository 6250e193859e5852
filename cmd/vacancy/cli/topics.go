package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// exitCodesTopic is "vacancy help exit-codes": the table of package problem.
func exitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "Exit codes",
		Long:  exitCodes(),
	}
}

// exitCodes renders the table: each code, its meaning, and its values of "code"
// in errors.
func exitCodes() string {
	words := map[int][]string{}
	for _, k := range problem.Kinds() {
		exit := k.Row().Exit
		words[exit] = append(words[exit], k.String())
	}
	var b strings.Builder
	b.WriteString("A command ends with one of these codes. With --json an error also carries the\nword in its member \"code\".\n")
	for _, e := range problem.Exits() {
		fmt.Fprintf(&b, "\n%5d  %s\n", e.Code, e.Meaning)
		if len(words[e.Code]) > 0 {
			fmt.Fprintf(&b, "       %s\n", strings.Join(words[e.Code], ", "))
		}
	}
	return b.String()
}

// agentContractTopic is "vacancy help agent-contract".
func agentContractTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "agent-contract",
		Short: "What a host sends to an agent, and what it takes as an answer",
		Long: `An agent is an HTTP endpoint. "vacancy new" writes one, and "vacancy agents check URL" asks
one all that follows.

The host sends POST with Content-Type: application/json and these members:

    message     the text, at most 256 KiB
    caller      the id of the caller, 64 hex digits; its signature has been verified
    vacant      the id of the vacant that is asked
    context_id  the caller's thread, a string, or null
    id          the hash of the call, 64 hex digits; zeros if the host itself asks
    deadline_ms how many milliseconds the host waits for the answer

More members may come; ignore what you do not know. There is no key and no signature in it.

The answer has status 200 and either

    Content-Type: application/json and a body {"text": "..."}; other members are ignored
    Content-Type: text/plain and the text itself, in UTF-8

with at most 300 KB of text, within 25 s (23 s for you; --work gives more on a host of your
own). Redirects are not followed, and no proxy is used.

What else the agent does is a failure of the vacant. Its caller learns the kind alone; its
operator reads the first 500 bytes of what came in "vacancy logs --failed", without what
looks like a secret.

    refuses the connection for 2 s, 408, 5xx       substrate_unavailable
    429                                            substrate_busy
    another status, media type or form             substrate_misconfigured
    more than 300 KB                               substrate_too_large
    nothing in time                                deadline

Calls of one caller come one after the other, those of several callers at once. A call that
failed is not repeated: its caller may send a new one.
`,
	}
}
