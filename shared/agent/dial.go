package agent

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"time"

	"github.com/vacancy-host/vacancy/shared/agent/datadir"
	"github.com/vacancy-host/vacancy/shared/host/client/discovery"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/filebook"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// Conn calls one vacant with one identity. It is safe for concurrent use, but calls run one after
// the other.
type Conn struct {
	caller *dispatch.Caller
	target dispatch.Target
	former string // result of FormerID
}

// Dial finds the vacant at a URL such as https://host/v/NAME and verifies its card. identityDir is
// the directory of the identity that signs the calls, in the format of `vacancy init`. If the
// directory does not exist, Dial creates it with a new identity.
func Dial(ctx context.Context, identityDir, target string) (*Conn, error) {
	self, err := openIdentity(ctx, identityDir)
	if err != nil {
		return nil, err
	}
	client := dispatch.NewHTTP(dispatch.HTTPOptions{})
	t, err := dispatch.FetchTarget(ctx, client, target)
	if err != nil {
		return nil, err
	}
	formerID := ""
	addresses := &filebook.Book{Dir: filepath.Join(self.Dir, "addresses")}
	if id, err := discovery.RecordAddress(ctx, addresses, t, time.Now()); err != nil {
		return nil, err
	} else if !id.IsZero() {
		formerID = id.String()
	}
	return &Conn{&dispatch.Caller{Signer: self.Key, Book: self.Book(), Transport: client, Now: time.Now, Rand: rand.Reader}, t, formerID}, nil
}

func openIdentity(ctx context.Context, identityDir string) (*datadir.Identity, error) {
	path, err := filepath.Abs(identityDir)
	if err != nil {
		return nil, problem.Wrap(problem.Usage, err, "%.200q is not a path", identityDir)
	}
	home := &datadir.Dir{Dir: filepath.Dir(path), Now: time.Now, Rand: rand.Reader}
	self, err := home.Open(filepath.Base(path))
	if !problem.Is(err, problem.NotFound) {
		return self, err
	}
	bundle, _, err := datadir.NewBundle(rand.Reader)
	if err != nil {
		return nil, err
	}
	self, err = home.Create(ctx, filepath.Base(path), bundle)
	if problem.Is(err, problem.Conflict) {
		return home.Open(filepath.Base(path)) // another process was faster
	}
	return self, err
}

// ID returns the id of the vacant, 64 hex digits.
func (c *Conn) ID() string { return c.target.ID.String() }

// FormerID returns the id of another vacant to which the URL led at the previous Dial with this
// identity, or "". A name may pass from one vacant to another. To call the former vacant, dial
// https://host/v/ID.
func (c *Conn) FormerID() string { return c.former }

// Call signs text, sends it and returns the verified answer. It stores the signed bytes before it
// sends them: after an error, the same call sends the same bytes again and gets the same answer.
func (c *Conn) Call(ctx context.Context, text string) (string, error) {
	res, err := c.caller.Call(ctx, c.target, envelope.Message{Role: envelope.RoleUser, Parts: []string{text}})
	if err != nil {
		return "", err
	}
	if res.Reply == nil {
		return "", problem.New(problem.Untrusted, "%s returned no answer", c.target.Name)
	}
	return res.Reply.Payload.Text(), nil
}
