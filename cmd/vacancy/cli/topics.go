package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// exitCodesTopic returns the topic with the table of exit codes. Each code is shown with the values
// of "code" in JSON errors.
func exitCodesTopic() *cobra.Command {
	codes := map[int][]string{}
	for _, k := range problem.Kinds() {
		exit := k.Forms().ExitCode
		codes[exit] = append(codes[exit], k.String())
	}
	var b strings.Builder
	b.WriteString("A command ends with one of these codes. With --json an error also carries the\nword in its member \"code\".\n")
	for _, e := range problem.ExitCodes() {
		fmt.Fprintf(&b, "\n%5d  %s\n", e.Code, e.Meaning)
		if len(codes[e.Code]) > 0 {
			fmt.Fprintf(&b, "       %s\n", strings.Join(codes[e.Code], ", "))
		}
	}
	return &cobra.Command{Use: "exit-codes", Short: "Exit codes", Long: b.String()}
}

func agentContractTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "agent-contract",
		Short: "What a host sends to an agent, and what it takes as an answer",
		Long: `An agent is an HTTP endpoint. "vacancy new" writes one, and "vacancy agents check URL" checks
one against this contract.

The host sends POST with Content-Type: application/json and these members:

    message     the text, at most 256 KiB
    caller      the id of the caller, 64 hex digits; its signature has been verified
    vacant      the id of the vacant that is called
    context_id  the caller's thread, a string, or null
    files       for an agent whose file declares "input", the files of the message: a list of
                {"name": "a.png", "media_type": "image/png", "data": base64}, or {"url": "..."}.
                A url comes from the caller, and the host has not fetched it. It is https and
                contains no private address, but its host name may resolve to one: check the
                address that you connect to. Each file has a line in message
    history     with memory, the earlier messages of the thread, the oldest first: a list of
                {"role": "caller" or "agent", "text": "..."}. A turn with "claimed" has the
                role caller, because an OpenAI client sent it and nobody verified it;
                claimed is the role that the client gives: user, assistant, system, developer
    id          the hash of the call, 64 hex digits; zeros if the host itself asks
    deadline_ms how many milliseconds the host waits for the answer

Ignore members that you do not know: later versions may add some. The request has no key.

A web page in a browser on the same machine can send requests to an agent, too. Refuse another
Content-Type, and, if the agent has no secret, a request with Origin or with a Host that is not
a name of the machine, such as 127.0.0.1:9000: pages cannot avoid both. The programs of "vacancy
new" do so, and "vacancy watch" gives a program a secret, as AGENT_SECRET in its environment.

If the agent has a secret ("vacancy secret set NAME --for HOST", "secret: NAME" in its
file), the host signs each request:

    Vacancy-Signature: t=1790000000,v1=<64 hex digits>

t is the Unix time. v1 is the HMAC-SHA256 of t, a full stop and the request body, with the
secret as the key. Answer 401 if the signature is missing or wrong, or if t is more than
five minutes off.

The answer has status 200 and either

    Content-Type: application/json and a body {"text": "..."}; other members are ignored, but
        "usage": {"input_tokens": 12, "output_tokens": 7, "cached_tokens": 0} is recorded
    Content-Type: text/plain and the text itself, in UTF-8
    Content-Type: text/event-stream and events delta, thought and ask with data {"text": "..."},
        usage with data as above, and at the end done, or error; an answer without done
        has failed. Callers that stream get each piece as soon as it arrives

with at most 300 KB of text, within 25 s (23 s for the agent), or within the time of "vacancy
update NAME work=5m", 14 minutes at most. Redirects are not followed, and no proxy is used.

To ask its caller a question, an agent adds "state": "input-required" to "text", or sends the event
ask. The task then waits ("vacancy task answer", the tool answer_task, or the next A2A message of
the task). The reply is the next message in the same context_id; agents with memory also get the
question in history.

A Lambda function ("lambda:ARN", on AWS) gets the same request as its event, without a
signature, and returns the object {"text": "...", "state": "...", "usage": {...}}.

Any other answer is a failure of the vacant. The caller gets only the kind of the failure. The
operator reads the first 500 bytes of the answer in "vacancy logs --failed"; text that looks
like a secret is removed.

    refuses the connection for 2 s, 408, 5xx       substrate_unavailable
    429                                            substrate_busy
    another status, media type or form             substrate_misconfigured
    more than 300 KB                               substrate_too_large
    no answer in time                              deadline

Calls of one caller come one after the other, calls of different callers at the same time. The
host does not repeat a call that failed; the caller may send a new one.
`,
	}
}

func agentFilesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "agent-files",
		Short: "The settings of an agent file",
		Long: `An agent is a Markdown file NAME.md: settings in YAML between two lines of ---, and then the
instructions for its model.

    ---
    description: Answers letters
    model: llama3.2
    max_turns: 8
    vacants: [archive]
    ---
    You answer letters of customers. Be brief.

"vacancy create --from FILE" hosts it, "vacancy agents import DIR|FILE" a folder of them, and
"vacancy update NAME --from FILE" makes its next version.

    description       what it can do; the vacant's capability, unless --capability is given
    provider          anthropic, bedrock (on AWS), gemini, mistral, ollama, openai, http (a
                      program), lambda (on AWS), mcp, echo, or mock (default: openai with a
                      base_url, else the provider of a known model name such as
                      claude-opus-4-6, else ollama)
    base_url          the server of a model or of mcp, such as http://127.0.0.1:8000/v1
                      (default: the provider's); for http the whole URL
    model             the model's name; of mcp the tool that answers, of lambda the ARN
    tier              instead of a model: HIGH, MEDIUM (default) or LOW selects the provider's
                      model from "vacancy models"; the provider may come from --substrate
    secret            the name of the secret for the server ("vacancy secret set"); anthropic,
                      gemini, mistral and openai without a base_url use their own name by default
    fallback_model    the model that does a turn in which the main model is overloaded or
                      fails; without it the main model is asked once more
    budget            the budget of a call in dollars, for a paid model
    daily_budget      the budget of a UTC day in dollars, for a paid model (default 1)
    price             dollars per million tokens as IN/OUT or IN/OUT/CACHED (default: as in
                      "vacancy models"); 0 for a free server that requires a secret. The
                      operator pays for a tenant's model at Bedrock or with a secret: there
                      the price counts only above the one in "vacancy models"
    max_tokens        the maximum tokens of the model's answer in a turn; 1 to 1048576 (default:
                      the server's, for a paid model 8192). The limit is lower if a budget
                      leaves less; the log of the call then shows it
    max_turns         the maximum number of turns of the model in a call; 1 to 64 (default 16)
    timeout           seconds for a call, if that is less than the host allows
    effort            low, medium or high
    output_format     text or json; with json the model is asked once more if its answer is not a
                      JSON document
    omit              members of requests that the model's server refuses, such as
                      response_format or stream_options; a member that the server refuses by
                      name is left out for an hour without this setting
    memory            on or off: whether it gets the last 20 exchanges of the caller's
                      thread (context id)
    ask               on or off: whether a model has the tool ask_user, which asks the caller a
                      question; the task waits for the answer ("vacancy task answer")
    input             the media types of the files that it accepts with text, such as image/png or
                      application/json, from A2A and OpenAI clients; an HTTP agent may take
                      any, a model images (PNG, JPEG, WebP, GIF), JSON and text/...
    vacants           vacants that it may ask: vacants of its tenant, or public vacants of this
                      host; each is a tool vacant__NAME while the agent may call it
    mcp_servers       MCP servers, as NAME: URL, whose tools it is offered: mcp__NAME__TOOL; at
                      most 128 tools. The host leaves out tools whose schema models refuse, and
                      servers that do not answer; "vacancy show" and the log of a call name
                      them. With NAME: {url: URL, required: true} a call fails instead while the
                      server does not answer
    tools             the only tools that it may use; allowed_tools means the same
    disallowed_tools  tools that it may not use in any case
    allow             all substrates that may ever answer, each KIND or KIND:MODEL, for the card:
                      a change among them needs no new card
    mode              read-only or read-write (default read-only; for a task that the owner of
                      the agent dispatches, read-write). A read-only agent has no tools that
                      change data (MCP tools without readOnlyHint), and writes files only
                      below .vault/
    workspace         the workspace of its tasks' files (default main); see "vacancy files"
    include_dirs      the folders of the workspace that it may read besides .vault/ and its
                      lock_paths (default: all)
    lock_paths        the files and folders that its tasks in mode read-write lock; see "vacancy
                      locks". A task in mode read-only locks .vault/
    tool_log          names: the log of a call has each tool's name, time and outcome; or texts:
                      the host also stores the arguments and results of tools, at most 64 KiB
                      a call, without text that looks like a secret, sealed and destroyed with
                      the texts of the call ("vacancy show NAME --tools CALLER"). An answer that its
                      caller cancels keeps no texts of tools

Lists may be texts with commas. --substrate KIND:MODEL overrides provider, base_url and model.
PROVIDER/NAME.md next to NAME.md is the agent for that provider only. A setting that this host
does not support is a warning; an unknown setting is an error.

With --root DIR the model's instructions begin with .claude/CLAUDE.md of DIR and end with its
.claude/rules/*.md. A line that begins with @PATH is replaced by that file, which is searched in
the folder of the file with the line and then in DIR. No other file is read.

The mock answers with the message, or plays the script in a code block of the language mock:
one event per line (thought: TEXT, text: TEXT, call: TOOL {"argument": "value"}, usage: IN OUT,
wait: 200ms, fail: busy), and a line of --- between two turns. {input} is the message and
{result} the results of the tools.
`,
	}
}
