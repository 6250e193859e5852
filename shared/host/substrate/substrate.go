// Package substrate is the port to what answers for a vacant: an echo, an HTTP
// endpoint, later a model. Each adapter is a package below this one.
//
// The invariant: a substrate sees the caller's text and both ids, never an
// envelope, a signature or a key, so it cannot act as the vacant.
package substrate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// MaxText bounds an answer's text in bytes, so that it fits into one row of
// every store (shared/README §3).
const MaxText = 300 << 10

// Question is one call as a substrate sees it.
type Question struct {
	Text      string // the message's texts, joined by one space
	Caller    identity.ID
	Vacant    identity.ID // the vacant that is asked
	ContextID *string     // the caller's thread; nil if it named none
}

// Substrate answers questions. It is safe for concurrent use and honours its
// context, whose deadline leaves the host the time to sign and keep the
// answer. The text is UTF-8 of at most MaxText bytes. An error of kind
// problem.Deadline means that time ran out; any other, that the substrate
// failed.
type Substrate interface {
	Answer(ctx context.Context, q Question) (text string, err error)
}

// Behaviour makes s the behaviour of a vacant: one part, ROLE_AGENT.
func Behaviour(s Substrate) call.Behaviour {
	return func(ctx context.Context, _ *call.Host, e envelope.Envelope) (envelope.Message, error) {
		text, err := s.Answer(ctx, Question{Text: e.Payload.Text(), Caller: e.From, Vacant: e.To, ContextID: e.Payload.ContextID})
		if err != nil {
			return envelope.Message{}, err
		}
		return envelope.Message{Role: envelope.RoleAgent, Parts: []string{text}}, nil
	}
}

// Spec names a substrate by kind and argument. Its text form, stored in a
// vacant's record, is KIND or KIND:ARGUMENT.
type Spec struct{ Kind, Argument string }

// KindHTTP is the kind of a bare URL.
const KindHTTP = "http"

// Parse parses a Spec: echo, http:https://example.com/answer, or as a shorthand
// https://example.com/answer.
func Parse(s string) (Spec, error) {
	const want = "KIND or KIND:ARGUMENT, such as echo or http:https://example.com/answer"
	if strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") {
		return Spec{Kind: KindHTTP, Argument: s}, nil
	}
	kind, argument, _ := strings.Cut(s, ":")
	if kind == "" || strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return Spec{}, problem.Invalid("substrate", want, fmt.Sprintf("%.80q", s))
	}
	return Spec{Kind: kind, Argument: argument}, nil
}

// String is the text form.
func (s Spec) String() string {
	if s.Argument == "" {
		return s.Kind
	}
	return s.Kind + ":" + s.Argument
}

// Kinds maps the substrate kinds that a host offers to their constructors.
type Kinds map[string]func(argument string) (Substrate, error)

// Open makes the substrate of s; a problem of kind Malformed says what is wrong
// with it.
func (k Kinds) Open(s Spec) (Substrate, error) {
	make, ok := k[s.Kind]
	if !ok {
		names := []string{}
		for name := range k {
			names = append(names, name)
		}
		slices.Sort(names)
		return nil, problem.Invalid("substrate", "one of "+strings.Join(names, ", "), fmt.Sprintf("%.40q", s.Kind))
	}
	return make(s.Argument)
}
