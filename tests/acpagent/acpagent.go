// Package acpagent is an agent of ACP for tests of clients: it runs the lines of its prompt as commands.
package acpagent

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/acp-go-sdk"
)

// script is an agent that runs the lines of its prompt as commands.
type script struct {
	kind string
	conn *acp.AgentSideConnection
	mu   sync.Mutex
	stop context.CancelFunc
}

// Run runs the agent on standard input and output. kind is how it misbehaves: it exits, hangs or writes noise before its
// first session, speaks an old version, needs a login, is deaf to cancellations, or lingers after the end of its input. gemini has the name
// of Gemini CLI.
// Another kind behaves.
func Run(kind string) {
	switch kind {
	case "exits":
		fmt.Fprintln(os.Stderr, "no key in the keyring")
		os.Exit(3)
	case "hangs":
		select {}
	case "noise":
		for range 102 {
			fmt.Println("Loading...")
		}
	case "remark":
		fmt.Println("Loading...")
	}
	s := &script{kind: kind}
	s.conn = acp.NewAgentSideConnection(s, os.Stdout, os.Stdin)
	<-s.conn.Done()
	if kind == "lingers" {
		select {}
	}
}

func (s *script) Initialize(context.Context, acp.InitializeRequest) (acp.InitializeResponse, error) {
	version := acp.ProtocolVersion(acp.ProtocolVersionNumber)
	if s.kind == "old" {
		version = 0
	}
	r := acp.InitializeResponse{ProtocolVersion: version}
	if s.kind == "gemini" {
		r.AgentInfo = &acp.Implementation{Name: "gemini-cli", Version: "0.61.0"}
	}
	return r, nil
}

func (s *script) NewSession(_ context.Context, q acp.NewSessionRequest) (acp.NewSessionResponse, error) {
	if s.kind == "login" {
		return acp.NewSessionResponse{}, acp.NewAuthRequired(nil)
	}
	return acp.NewSessionResponse{SessionId: "s-1"}, nil
}

func (s *script) Cancel(context.Context, acp.CancelNotification) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		s.stop()
	}
	return nil
}

func (s *script) say(ctx context.Context, update acp.SessionUpdate) {
	_ = s.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: "s-1", Update: update})
}

func (s *script) text(ctx context.Context, format string, args ...any) {
	s.say(ctx, acp.UpdateAgentMessageText(fmt.Sprintf(format, args...)))
}

// Prompt implements acp.Agent. It runs the lines of a prompt, and sends the result of each.
func (s *script) Prompt(ctx context.Context, q acp.PromptRequest) (acp.PromptResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	s.stop = cancel
	s.mu.Unlock()
	for line := range strings.Lines(q.Prompt[0].Text.Text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "say":
			s.text(ctx, "%s", rest)
		case "prompt":
			s.text(ctx, "%s", q.Prompt[0].Text.Text)
		case "clock": // the time of each piece, in nanoseconds
			n, _ := strconv.Atoi(rest)
			for range n {
				s.text(ctx, "@%d;", time.Now().UnixNano())
				time.Sleep(20 * time.Millisecond)
			}
		case "think":
			s.say(ctx, acp.UpdateAgentThoughtText(rest))
		case "tool":
			s.say(ctx, acp.StartToolCall("c-1", "Edit", acp.WithStartKind(acp.ToolKindEdit), acp.WithStartStatus(acp.ToolCallStatusPending)))
			s.say(ctx, acp.UpdateToolCall("c-1", acp.WithUpdateStatus(acp.ToolCallStatus(rest))))
		case "read":
			var p acp.ReadTextFileRequest
			_ = json.Unmarshal([]byte(rest), &p)
			r, err := s.conn.ReadTextFile(ctx, p)
			s.text(ctx, "%q %v", r.Content, err)
		case "write":
			path, text, _ := strings.Cut(rest, " ")
			_, err := s.conn.WriteTextFile(ctx, acp.WriteTextFileRequest{SessionId: "s-1", Path: path, Content: text})
			s.text(ctx, "%v", err)
		case "ask":
			var p acp.RequestPermissionRequest
			_ = json.Unmarshal([]byte(rest), &p)
			p.SessionId = "s-1"
			r, err := s.conn.RequestPermission(ctx, p)
			if r.Outcome.Selected != nil {
				s.text(ctx, "selected %s", r.Outcome.Selected.OptionId)
			} else {
				s.text(ctx, "cancelled %v", err)
			}
		case "terminal":
			limit, command, _ := strings.Cut(rest, " ")
			p := acp.CreateTerminalRequest{SessionId: "s-1", Command: "sh", Args: []string{"-c", command}}
			if n := 0; limit != "-" {
				_, _ = fmt.Sscan(limit, &n)
				p.OutputByteLimit = &n
			}
			t, err := s.conn.CreateTerminal(ctx, p)
			if err != nil {
				s.text(ctx, "%v", err)
				break
			}
			end, err := s.conn.WaitForTerminalExit(ctx, acp.WaitForTerminalExitRequest{SessionId: "s-1", TerminalId: t.TerminalId})
			out, _ := s.conn.TerminalOutput(ctx, acp.TerminalOutputRequest{SessionId: "s-1", TerminalId: t.TerminalId})
			b, _ := json.Marshal(end)
			if n := len(out.Output); n > 1000 {
				out.Output = fmt.Sprintf("%d bytes to %s", n, out.Output[n-5:])
			}
			s.text(ctx, "%s %v %q %v", b, err, out.Output, out.Truncated)
			_, _ = s.conn.ReleaseTerminal(ctx, acp.ReleaseTerminalRequest{SessionId: "s-1", TerminalId: t.TerminalId})
			out, err = s.conn.TerminalOutput(ctx, acp.TerminalOutputRequest{SessionId: "s-1", TerminalId: t.TerminalId})
			s.text(ctx, " then %q %v", out.Output, err)
		case "open": // leaves a terminal to the client
			t, _ := s.conn.CreateTerminal(ctx, acp.CreateTerminalRequest{SessionId: "s-1", Command: "sh", Args: []string{"-c", rest}})
			s.text(ctx, "%s", t.TerminalId)
		case "kill":
			_, err := s.conn.KillTerminal(ctx, acp.KillTerminalRequest{SessionId: "s-1", TerminalId: rest})
			end, _ := s.conn.WaitForTerminalExit(ctx, acp.WaitForTerminalExitRequest{SessionId: "s-1", TerminalId: rest})
			b, _ := json.Marshal(end)
			s.text(ctx, "%s %v", b, err)
		case "wait":
			if s.kind == "deaf" {
				select {}
			}
			<-ctx.Done()
			s.text(context.Background(), "after the end")
			return acp.PromptResponse{StopReason: acp.StopReasonCancelled}, nil
		case "flood":
			for range 100_000 {
				s.text(ctx, "%s", strings.Repeat("x", 100))
			}
		case "burst": // more updates at once than the library can queue
			for n := range 5000 {
				s.text(ctx, "%d,", n)
			}
		case "line":
			var n int
			_, _ = fmt.Sscan(rest, &n)
			frame := `{"jsonrpc":"2.0","method":"_note","params":""}`
			fmt.Println(strings.Replace(frame, `""`, `"`+strings.Repeat("x", n-len(frame))+`"`, 1))
		case "breaks":
			fmt.Println(`{"jsonrpc":"2.0","method":"session/up`)
			fmt.Println(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":[]}}`)
			fmt.Println(`[]`)
		case "refuse":
			return acp.PromptResponse{StopReason: acp.StopReasonRefusal}, nil
		case "long":
			return acp.PromptResponse{StopReason: acp.StopReasonMaxTokens}, nil
		case "use":
			return acp.PromptResponse{StopReason: acp.StopReasonEndTurn, Usage: &acp.Usage{InputTokens: 7, OutputTokens: 5, TotalTokens: 12}}, nil
		case "die":
			fmt.Fprintln(os.Stderr, "out of memory")
			os.Exit(1)
		case "env":
			s.text(ctx, "%q", os.Environ())
		}
	}
	return acp.PromptResponse{StopReason: acp.StopReasonEndTurn}, nil
}

func (s *script) Authenticate(context.Context, acp.AuthenticateRequest) (r acp.AuthenticateResponse, err error) {
	return r, nil
}
func (s *script) Logout(context.Context, acp.LogoutRequest) (r acp.LogoutResponse, err error) {
	return r, nil
}
func (s *script) CloseSession(context.Context, acp.CloseSessionRequest) (r acp.CloseSessionResponse, err error) {
	return r, nil
}
func (s *script) ListSessions(context.Context, acp.ListSessionsRequest) (r acp.ListSessionsResponse, err error) {
	return r, nil
}
func (s *script) ResumeSession(context.Context, acp.ResumeSessionRequest) (r acp.ResumeSessionResponse, err error) {
	return r, nil
}
func (s *script) SetSessionConfigOption(context.Context, acp.SetSessionConfigOptionRequest) (r acp.SetSessionConfigOptionResponse, err error) {
	return r, nil
}
func (s *script) SetSessionMode(context.Context, acp.SetSessionModeRequest) (r acp.SetSessionModeResponse, err error) {
	return r, nil
}
