package vacantcmd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/httpagent"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func agentsCommand(a *kit.App) *cobra.Command {
	var withSecret bool
	check := &cobra.Command{
		Use:   "check URL",
		Short: "Check an agent against the contract",
		Long: `Check an agent by sending it the questions that a host sends: a short one, one with all kinds of
characters, one in a thread, one of the largest size, and two at once. The command needs no host
and stores nothing. "vacancy help agent-contract" shows the contract. The exit code is 1 if a call
would fail.

With --signed, the questions are signed with the secret on standard input. The agent must refuse a
question that is signed with another secret.`,
		Example: "  vacancy agents check http://127.0.0.1:9000\n  vacancy agents check http://127.0.0.1:9000 --signed < key.txt",
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := substrate.Parse(args[0])
			if err != nil || spec.Kind != substrate.KindHTTP {
				return &problem.Error{Kind: problem.Usage, Field: "URL", Want: "an http or https URL", Got: fmt.Sprintf("%.80q", args[0])}
			}
			// The command runs on the user's machine, so the user may choose any address.
			allowAny := func(context.Context, outbound.Actor, string) error { return nil }
			agent, err := httpagent.New(outbound.New(outbound.Options{AllowLoopback: true, Guard: allowAny}))(spec.Argument)
			if err != nil {
				return err
			}
			key, err := identity.NewKey(a.Rand)
			if err != nil {
				return err
			}
			secret := substrate.Secret{}
			if withSecret {
				value, err := readSecretValue(a, "vacancy agents check "+args[0]+" --signed")
				if err != nil {
					return err
				}
				secret = substrate.NewSecret(value)
			}
			r := agentsCheckResult{URL: spec.Argument, contractCommand: a.FormatCommand("help agent-contract"), Checks: checkContract(cmd.Context(), agent, key.ID(), secret)}
			if withSecret && r.Checks[0].Failure == nil {
				r.Checks = append(r.Checks, checkSignature(cmd.Context(), agent, key.ID()))
			}
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			r.OK = !slices.ContainsFunc(r.Checks, func(c contractCheck) bool { return c.Failure != nil })
			if err := a.PrintResult(r); err != nil || r.OK {
				return err
			}
			return &kit.ReportedError{}
		},
	}
	check.Flags().BoolVar(&withSecret, "signed", false, "sign with the secret from standard input")
	return a.ParentCommand(&cobra.Command{
		Use:     "agents",
		Short:   "Check and import the agents behind vacants",
		Example: "  vacancy agents check http://127.0.0.1:9000\n  vacancy agents import ./agents",
	}, check, agentsImportCommand(a))
}

// checkSignature sends an agent a question that is signed with a random secret. The agent should
// refuse the question.
func checkSignature(ctx context.Context, agent substrate.Substrate, id identity.ID) contractCheck {
	ctx, cancel := context.WithTimeout(ctx, call.DefaultCallTimeout-call.DefaultReplyMargin)
	defer cancel()
	q := substrate.NewTextRequest(id, id, "Hello")
	q.Secret = substrate.NewSecret(rand.Text())
	startTime := time.Now()
	answer, err := substrate.ReadAnswer(agent.Infer(ctx, q))
	check := contractCheck{Title: "refuses a wrong signature", DurationMS: time.Since(startTime).Milliseconds()}
	var agentErr *call.AgentError
	switch {
	case err == nil:
		check.Answer = kit.Truncate(answer.Text, 60)
		check.Failure = call.NewCause(problem.New(problem.SubstrateMisconfigured, "the agent answers questions that are signed with another secret"), time.Since(startTime))
	case !errors.As(err, &agentErr) || agentErr.Status != http.StatusUnauthorized && agentErr.Status != http.StatusForbidden:
		check.Failure = call.NewCause(err, time.Since(startTime))
	}
	return check
}

// maxTextBytes limits a text so that its envelope fits into 256 KiB.
const maxTextBytes = 250 << 10

// checkContract sends an agent all kinds of questions that a host may send. It stops if the first
// question does not reach the agent.
func checkContract(ctx context.Context, agent substrate.Substrate, id identity.ID, secret substrate.Secret) (checks []contractCheck) {
	const thread, sentence = "thread-1", "All work and no play. "
	for _, test := range []struct {
		says   string
		text   string
		thread *string
		times  int
	}{
		{"answers a question", "Hello", nil, 1},
		{"takes every character", "Grüße 法律 🦊 \"quoted\" \\ \u2028 \t\n{}", nil, 1},
		{"takes a question in a thread", "Hello again", new(thread), 1},
		{"takes the largest question", strings.Repeat(sentence, maxTextBytes/len(sentence)), nil, 1},
		{"answers two at once", "Hello both", nil, 2},
	} {
		q := substrate.NewTextRequest(id, id, test.text)
		q.ContextID, q.Secret = test.thread, secret
		check := contractCheck{Title: test.says}
		startTime := time.Now()
		failures, answers := make([]error, test.times), make([]string, test.times)
		var wg sync.WaitGroup
		for i := range test.times {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, call.DefaultCallTimeout-call.DefaultReplyMargin)
				defer cancel()
				answer, err := substrate.ReadAnswer(agent.Infer(ctx, q))
				failures[i], answers[i] = err, answer.Text
			})
		}
		wg.Wait()
		elapsed := time.Since(startTime)
		check.DurationMS, check.Answer = elapsed.Milliseconds(), kit.Truncate(answers[0], 60)
		for _, err := range failures {
			if err != nil && check.Failure == nil {
				check.Failure = call.NewCause(err, elapsed)
			}
		}
		checks = append(checks, check)
		if check.Failure != nil && check.Failure.Status == 0 && len(checks) == 1 {
			break
		}
	}
	return checks
}

type contractCheck struct {
	Title      string      `json:"what"`
	Answer     string      `json:"answer"` // beginning of the answer
	DurationMS int64       `json:"took_ms"`
	Failure    *call.Cause `json:"failure,omitempty"`
}

// agentsCheckResult is the report on an agent's conformance to the contract.
type agentsCheckResult struct {
	OK     bool            `json:"ok"`
	URL    string          `json:"url"`
	Checks []contractCheck `json:"checks"`

	contractCommand string // command that shows the contract
}

func (r agentsCheckResult) Print(w io.Writer) {
	for _, c := range r.Checks {
		if c.Failure != nil {
			fmt.Fprintf(w, "%s  %-30s %s\n", kit.PaintVerdict(w, false, "FAIL"), c.Title, kit.EscapeLine(kit.Truncate(c.Failure.String(), kit.MaxShownCause)))
			continue
		}
		fmt.Fprintf(w, "%s  %-30s %5d ms  %s\n", kit.PaintVerdict(w, true, "ok  "), c.Title, c.DurationMS, kit.EscapeLine(fmt.Sprintf("%q", c.Answer)))
	}
	if !r.OK {
		fmt.Fprintf(w, "\nThe contract: %s\n", r.contractCommand)
	}
}
