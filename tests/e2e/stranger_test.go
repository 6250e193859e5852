package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/readproof"
)

// strangerCommand is the command of somebody with keys and without our client:
// it signs and prints, and sends nothing.
//
//	stranger id KEY
//	stranger halo KEY -text T [-seq N] [-idem K] [-visibility V] [-parent KEY] [-replaces TEXT]
//	stranger manifest PARENT CHILD [open]
//	stranger proof KEY URL
//	stranger spawn KEY -name N [-path P] [-capability C] [-nonce N] [-ago D] [-with KEY]
//	stranger envelope KEY -to ID [-text T] [-from ID]
//
// A KEY is a number; the seed is that byte, 32 times.
func strangerCommand() {
	if err := strange(context.Background(), os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func strange(ctx context.Context, out io.Writer, args []string) error {
	if len(args) < 2 {
		return errors.New("usage: stranger id|halo|manifest|proof|spawn|envelope KEY …")
	}
	key, err := seeded(args[1])
	if err != nil {
		return err
	}
	switch rest := args[2:]; args[0] {
	case "id":
		_, err = fmt.Fprintln(out, key.ID())
	case "halo":
		err = strangeHalo(ctx, out, key, rest)
	case "manifest":
		err = strangeManifest(ctx, out, key, rest)
	case "proof":
		err = strangeProof(ctx, out, key, rest)
	case "spawn":
		err = strangeSpawn(ctx, out, key, rest)
	case "envelope":
		err = strangeEnvelope(ctx, out, key, rest)
	default:
		err = fmt.Errorf("stranger: no command %q", args[0])
	}
	return err
}

func seeded(number string) (*identity.Key, error) {
	var n byte
	if _, err := fmt.Sscan(number, &n); err != nil {
		return nil, fmt.Errorf("KEY: expected a number up to 255, got %q", number)
	}
	return identity.KeyFromSeed(bytes.Repeat([]byte{n}, identity.Size))
}

func strangeCard(ctx context.Context, key *identity.Key, text string) (card.Card, error) {
	c, err := card.New(key.ID(), text, []string{"mock", "anthropic"}, "")
	if err != nil {
		return c, err
	}
	return c, c.Sign(ctx, key)
}

func strangeHalo(ctx context.Context, out io.Writer, key *identity.Key, args []string) error {
	fs := flag.NewFlagSet("halo", flag.ContinueOnError)
	text, idem := fs.String("text", "", ""), fs.String("idem", "", "")
	seq, visibility := fs.Int64("seq", 1, ""), fs.String("visibility", "PUBLIC", "")
	parent, replaces := fs.String("parent", "", ""), fs.String("replaces", "", "")
	if err := fs.Parse(args); err != nil {
		return err
	}
	c, err := strangeCard(ctx, key, *text)
	if err != nil {
		return err
	}
	d := registryclient.Draft{Card: c, State: lifecycle.Active, Visibility: lifecycle.Visibility(*visibility)}
	if *parent != "" {
		above, err := seeded(*parent)
		if err != nil {
			return err
		}
		id := above.ID()
		d.Parent = &id
	}
	if *idem == "" {
		*idem = fmt.Sprintf("register:%d", *seq)
	}
	if *replaces != "" {
		old, err := strangeCard(ctx, key, *replaces)
		if err != nil {
			return err
		}
		*idem = event.ReplacesKey(old.Hash())
	}
	h, err := d.Sign(ctx, key, *seq, *idem, time.Now())
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(h)
}

func strangeManifest(ctx context.Context, out io.Writer, parent *identity.Key, args []string) error {
	open := len(args) == 2 && args[1] == "open"
	if len(args) != 1 && !open {
		return errors.New("usage: stranger manifest PARENT CHILD [open]")
	}
	child, err := seeded(args[0])
	if err != nil {
		return err
	}
	m := composite.Manifest{
		ParentID: parent.ID(), ChildID: child.ID(), BirthPath: "D2", ClosedByDefault: !open, SchemaVersion: composite.SchemaV2,
		Reachability: composite.ParentOnly, OutboundPolicy: composite.NoExternal,
	}
	if err := errors.Join(m.SignParent(ctx, parent), m.SignChild(ctx, child)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", m.Blob())
	return err
}

func strangeProof(ctx context.Context, out io.Writer, key *identity.Key, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: stranger proof KEY URL")
	}
	u, err := url.Parse(args[0])
	if err != nil {
		return err
	}
	value, err := readproof.Sign(ctx, key, readproof.Request{Authority: u.Host, Method: "GET", Target: u.RequestURI()}, time.Now())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: %s\n", readproof.Header, value)
	return err
}
