package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/hosted"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
)

// vacantResult is a hosted vacant, as the door shows it.
type vacantResult struct {
	account.Vacant
	Logbook []account.Entry `json:"logbook,omitempty"`
}

func (r vacantResult) text(w io.Writer) {
	fmt.Fprintf(w, "%s\n  id          %s\n  state       %s\n  capability  %s\n  substrate   %s\n  endpoint    %s\n  created     %s\n",
		r.Name, r.ID, r.State, printable(r.Capability), printable(r.Substrate), printable(r.Endpoint), r.Created)
	for _, e := range r.Logbook {
		fmt.Fprintf(w, "  %4d  %s  %-13s %s\n", e.Position, e.Time, printable(e.Kind), printable(string(e.Payload)))
	}
}

// cardResult is the signed card alone, so that it can be written to a file and
// handed on.
type cardResult struct{ json.RawMessage }

func (r cardResult) text(w io.Writer) { fmt.Fprintf(w, "%s\n", r.RawMessage) }

// listResult is all vacants of a host.
type listResult struct {
	Vacants []account.Vacant `json:"vacants"`
}

func (r listResult) text(w io.Writer) {
	if len(r.Vacants) == 0 {
		fmt.Fprintln(w, "no vacants")
		return
	}
	widest := 4
	for _, v := range r.Vacants {
		widest = max(widest, len(v.Name))
	}
	for _, v := range r.Vacants {
		fmt.Fprintf(w, "%-*s  %-11s  %s  %s\n", widest, v.Name, v.State, v.ID.Short(), printable(clip(v.Capability, 60)))
	}
}

// hostedTarget finds the vacant of a running host that what names; nil and an
// error of kind NotFound if there is none.
func (a *app) hostedTarget(ctx context.Context, what, data string) (*dispatch.Target, error) {
	dir, err := a.dataDir(data)
	if err != nil {
		return nil, err
	}
	if hosted.CheckName(what) != nil && !isID(what) {
		return nil, problem.New(problem.NotFound, "%q is no card file, no URL and no name of a vacant", what)
	}
	client, base, err := serve.DialControl(dir)
	if errors.Is(err, serve.ErrNoHost) {
		err := problem.New(problem.NotFound, "%q is no card file and no URL, and no host is running over %s", what, dir)
		return nil, withHint(err, "vacancy dev")
	}
	if err != nil {
		return nil, err
	}
	v, err := (&account.Client{HTTP: client, URL: base}).Show(ctx, what)
	if problem.Is(err, problem.NotFound) {
		err := problem.New(problem.NotFound, "%q is no card file and no URL, and the host over %s has no vacant of that name", what, dir)
		return nil, withHint(err, "vacancy list")
	}
	if err != nil {
		return nil, err
	}
	c, err := card.Parse(v.Card)
	if err != nil {
		return nil, problem.Wrap(problem.Damaged, err, "the card of %s cannot be read", what)
	}
	return &dispatch.Target{ID: v.ID, URL: v.Endpoint, Card: &c, Name: what}, nil
}

func isID(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}
