package e2e

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// strangeSpawn is a spawn request that a parent signs itself.
func strangeSpawn(ctx context.Context, out io.Writer, parent *identity.Key, args []string) error {
	fs := flag.NewFlagSet("spawn", flag.ContinueOnError)
	name, path, capability := fs.String("name", "", ""), fs.String("path", "D2", ""), fs.String("capability", "", "")
	thinks := fs.String("substrate", "", "")
	nonce, ago, with := fs.Int("nonce", 1, ""), fs.Duration("ago", 0, ""), fs.String("with", "", "")
	if err := fs.Parse(args); err != nil {
		return err
	}
	r := composite.SpawnRequest{
		ParentID: parent.ID(), BirthPath: composite.BirthPath(*path), Name: *name, Capability: *capability, Substrate: *thinks,
		Nonce: fmt.Sprintf("%032x", *nonce), Time: time.Now().Add(-*ago),
	}
	if *with != "" {
		other, err := seeded(*with)
		if err != nil {
			return err
		}
		id := other.ID()
		r.SecondParentID = &id
	}
	if err := r.Sign(ctx, parent); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s\n", r.Blob())
	return err
}

// strangeEnvelope is a first call signed by one key; -from names another
// sender, which is a forgery.
func strangeEnvelope(ctx context.Context, out io.Writer, key *identity.Key, args []string) error {
	fs := flag.NewFlagSet("envelope", flag.ContinueOnError)
	to, from, text := fs.String("to", "", ""), fs.String("from", "", ""), fs.String("text", "hi", "")
	if err := fs.Parse(args); err != nil {
		return err
	}
	target, err := identity.ParseID(*to)
	if err != nil {
		return err
	}
	e := envelope.Envelope{
		From: key.ID(), To: target, Seq: 1, Time: time.Now().UTC().Truncate(time.Microsecond),
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{*text}},
	}
	if _, err := e.Sign(ctx, key); err != nil {
		return err
	}
	if *from != "" {
		if e.From, err = identity.ParseID(*from); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "%s\n", envelope.AppendRequest(nil, []byte(`"1"`), &e))
	return err
}
