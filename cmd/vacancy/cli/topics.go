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
	b.WriteString("A command exits with one of these codes. With --json, an error also has one of\nthe words below in its member \"code\".\n")
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
		Short: "The requests that a host sends to an agent, and the answers that it accepts",
		Long: `An agent is an HTTP endpoint. "vacancy new" creates an agent, and "vacancy agents check URL" checks
an agent against this contract.

The host sends POST requests with Content-Type: application/json and these members:

    message     the text, at most 256 KiB
    caller      the id of the caller, 64 hex digits. The host has verified the caller's signature
    vacant      the id of the called vacant, 64 hex digits
    context_id  the id of the caller's conversation, a string, or null
    files       the files of the message, if the agent's file declares "input". Each file is
                {"name": "a.png", "media_type": "image/png", "data": base64} or {"url": "..."},
                and has a line in message.
                The caller chose the url, and the host has not fetched it. It is an https URL
                without a private address, but its host name may resolve to a private address:
                check the address before you connect
    history     the earlier messages of the conversation, oldest first, if the agent has memory:
                a list of {"role": "caller" or "agent", "text": "..."}. A message with the member
                "claimed" comes from an OpenAI client. Its role is caller, because the host
                cannot verify who wrote it. The value of "claimed" is the role in the client's
                request: user, assistant, system or developer
    id          the hash of the call, 64 hex digits. It is all zeros if the host itself asks
    deadline_ms the number of milliseconds for which the host waits for the answer

Ignore unknown members, because later versions may add members. The request contains no key.

Web pages in a browser on the agent's machine can also send requests to the agent. To keep them
out, reject requests with another Content-Type. An agent without a secret should also reject
requests with an Origin header, and requests whose Host header is not a name of the machine, such
as 127.0.0.1:9000. The programs of "vacancy new" do this. "vacancy watch" gives its program a
secret in the environment variable AGENT_SECRET.

If the agent has a secret ("vacancy secret set NAME --for HOST" and "secret: NAME" in its
file), the host signs each request:

    Vacancy-Signature: t=1790000000,v1=<64 hex digits>

t is the Unix time. v1 is the HMAC-SHA256 of t, a full stop and the request body. The key of the
HMAC is the secret. Answer 401 if the signature is missing or wrong, or if t differs from the
current time by more than five minutes.

The answer has status 200 and one of these types:

    application/json   the body {"text": "..."}. The host records the member
                       "usage": {"input_tokens": 12, "output_tokens": 7, "cached_tokens": 0}
                       and ignores all other members
    text/plain         the text itself, in UTF-8
    text/event-stream  the events delta, thought and ask with the data {"text": "..."}, the event
                       usage with the data above, and at the end done or error. If the stream
                       ends without done, the call fails. Callers that stream get each piece at once

The text has at most 300 KB. It must arrive within 25 s (23 s for the agent), or within the time
set by "vacancy update NAME work=5m", which is at most 14 minutes. The host follows no redirects
and uses no proxy.

To ask its caller a question, an agent adds "state": "input-required" to "text", or sends the
event ask. The task then waits for an answer: "vacancy task answer", the tool answer_task, or the
next A2A message of the task. The reply is the next message with the same context_id. Agents with
memory also find the question in history.

A Lambda function ("lambda:ARN", on AWS) gets the same members as its event, without a
signature, and returns the object {"text": "...", "state": "...", "usage": {...}}.

Every other answer is an error. The caller gets only one of these words. The operator finds the
first 500 bytes of the answer in "vacancy logs --failed", without text that looks like a secret.

    connection refused for 2 s, 408, 5xx           substrate_unavailable
    429                                            substrate_busy
    another status, media type or form             substrate_misconfigured
    more than 300 KB                               substrate_too_large
    no answer before the deadline                  deadline

The host sends the calls of one caller one after the other, and the calls of different callers
concurrently. It does not retry a failed call; the caller may send a new one.
`,
	}
}

func agentFilesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "agent-files",
		Short: "The settings of an agent file",
		Long: `An agent is a Markdown file NAME.md. It begins with settings in YAML between two lines of ---.
The rest of the file is the instructions for the model.

    ---
    description: Answers letters
    model: llama3.2
    max_turns: 8
    vacants: [archive]
    ---
    You answer letters of customers. Be brief.

"vacancy create --from FILE" hosts an agent. "vacancy agents import DIR|FILE" hosts a folder of
agents. "vacancy update NAME --from FILE" publishes a new version of an agent.

    description       a description of the agent; the default of --capability
    provider          anthropic, bedrock (on AWS), gemini, mistral, ollama, openai, http (a
                      program), lambda (on AWS), mcp, echo, or mock. The default is openai if
                      base_url is set; otherwise the provider of a known model name such as
                      claude-opus-4-6; otherwise ollama
    base_url          the URL of the model's server or MCP server, such as
                      http://127.0.0.1:8000/v1 (default: the provider's server). For http, it is
                      the complete URL of the program
    model             the name of the model; for mcp, the tool that answers; for lambda, the ARN
    tier              HIGH, MEDIUM (default) or LOW: selects a model of the provider from
                      "vacancy models". Use it instead of model
    secret            the name of the secret for the server ("vacancy secret set"). The default
                      for anthropic, gemini, mistral and openai without a base_url is the
                      provider's name
    fallback_model    the model that takes over if the main model is overloaded or fails.
                      Without it, the main model is tried once more
    budget            the maximum cost of a call in dollars, for a paid model
    daily_budget      the maximum cost of a UTC day in dollars, for a paid model (default 1)
    price             dollars per million tokens as IN/OUT or IN/OUT/CACHED (default: the price
                      in "vacancy models"). Write 0 for a free server that requires a secret.
                      If the operator pays for a tenant's model, a price below the one in
                      "vacancy models" is ignored
    max_tokens        the maximum number of tokens in an answer of the model, 1 to 1048576
                      (default: the server's; for a paid model 8192). The host lowers the number
                      if the rest of a budget is smaller, and records that in the call's log
    max_turns         the maximum number of requests to the model in a call, 1 to 64 (default 16)
    timeout           the maximum time of a call in seconds. It cannot exceed the host's limit
    effort            low, medium or high
    output_format     text or json. If an answer should be JSON and is not, the host asks the
                      model once more
    omit              members of requests that the model's server rejects, such as
                      response_format or stream_options. If the server names the member in its
                      error, the host leaves it out for an hour without this setting
    memory            on or off: the model gets the last 20 exchanges of the conversation
                      (context id)
    ask               on or off: the model has the tool ask_user, which asks the caller a
                      question. The task waits for the answer ("vacancy task answer")
    input             the media types of the files that the agent accepts with text from A2A and
                      OpenAI clients, such as image/png. An HTTP agent may accept any type; a
                      model accepts images (PNG, JPEG, WebP, GIF), JSON and text/...
    vacants           vacants that the agent may ask: vacants of its tenant, or public vacants of
                      this host. Each vacant that the agent may call is a tool vacant__NAME
    mcp_servers       MCP servers, as NAME: URL. Their tools are named mcp__NAME__TOOL, at most
                      128 in total. The host leaves out servers that do not answer, and tools
                      whose schema models reject. "vacancy show" and the log of a call list
                      them. With NAME: {url: URL, required: true}, a call fails if the server
                      does not answer
    tools             the tools that the agent may use (default: all). allowed_tools is the same
    disallowed_tools  tools that the agent must not use
    allow             the substrates that may answer, each KIND or KIND:MODEL. They are written
                      on the card, so that a change among them needs no new card
    mode              read-only or read-write (default: read-write for tasks that the agent's
                      owner dispatches, otherwise read-only). A read-only agent has no tools that
                      change data (MCP tools without readOnlyHint), and writes files only
                      below .vault/
    workspace         the workspace of the task's files (default main); see "vacancy files"
    include_dirs      the folders of the workspace that the agent may read, in addition to
                      .vault/ and its lock_paths (default: all)
    lock_paths        the files and folders that a task locks in mode read-write. In mode
                      read-only, a task locks .vault/. See "vacancy locks"
    tool_log          names or texts. With names, the log of a call has the name, time and outcome
                      of each tool. With texts, the host also stores the arguments and results of
                      tools, at most 64 KiB per call. It removes text that looks like a secret,
                      seals the rest, and destroys it together with the texts of the call
                      ("vacancy show NAME --tools CALLER"). If a caller cancels an answer, the
                      host stores no texts of its tools

A list may be written as a text with commas. --substrate KIND:MODEL overrides provider, base_url
and model. PROVIDER/NAME.md next to NAME.md replaces NAME.md for that provider. The command warns
of settings that the host does not support, and rejects unknown settings.

With --root DIR, the instructions begin with DIR/.claude/CLAUDE.md and end with the files
DIR/.claude/rules/*.md. A line that begins with @PATH is replaced by the file at PATH. The command
searches it first in the folder of the file that contains the line, and then in DIR. It reads no
other files.

The mock agent answers with the message. If the instructions contain a code block of the language
mock, it plays that script: one event per line (thought: TEXT, text: TEXT,
call: TOOL {"argument": "value"}, usage: IN OUT, wait: 200ms, fail: busy), and a line of ---
between two turns. {input} stands for the message, and {result} for the results of the tools.
`,
	}
}
