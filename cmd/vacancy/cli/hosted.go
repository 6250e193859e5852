package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// vacantResult is a hosted vacant.
type vacantResult struct {
	admin.Vacant
	Logbook []admin.Entry `json:"logbook,omitempty"`
}

func (r vacantResult) text(w io.Writer) {
	if r.Deleted != "" {
		fmt.Fprintf(w, "%s\n  id          %s\n  state       %s\n  created     %s\n  deleted     %s\n", r.Name, r.ID, r.State, r.Created, r.Deleted)
	} else {
		fmt.Fprintf(w, "%s\n  id          %s\n  state       %s\n  capability  %s\n  substrate   %s\n  endpoint    %s\n  created     %s\n",
			r.Name, r.ID, r.State, printable(r.Capability), printable(r.Substrate), printable(r.Endpoint), r.Created)
	}
	if r.Tenant != "" {
		fmt.Fprintf(w, "  tenant      %s\n", printable(r.Tenant))
	}
	if r.Parent != nil {
		how := "open"
		if r.Closed {
			how = "closed"
		}
		fmt.Fprintf(w, "  child of    %s, %s\n", r.Parent, how)
	}
	for _, e := range r.Logbook {
		fmt.Fprintf(w, "  %4d  %s  %-13s %s\n", e.Position, e.Time, printable(e.Kind), printable(string(e.Payload)))
	}
}

// cardResult is the signed card alone, for files.
type cardResult struct{ json.RawMessage }

func (r cardResult) text(w io.Writer) { fmt.Fprintf(w, "%s\n", r.RawMessage) }

// listResult is all vacants of a host.
type listResult struct {
	Vacants []admin.Vacant `json:"vacants"`
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
		does := clip(v.Capability, 60)
		if v.Deleted != "" {
			does = "(deleted)"
		}
		fmt.Fprintf(w, "%-*s  %-11s  %s  %s\n", widest, v.Name, v.State, v.ID.Short(), printable(does))
	}
}

// hostedTarget finds the vacant of a running host that what names; nil and an
// error of kind NotFound if there is none.
func (a *app) hostedTarget(ctx context.Context, web dispatch.Getter, what string, w where) (*dispatch.Target, error) {
	at, err := a.find(w)
	if err != nil {
		return nil, err
	}
	if vacants.CheckName(what) != nil && !isID(what) {
		return nil, problem.New(problem.NotFound, "%q is no card file, no URL and no name of a vacant", what)
	}
	if at != nil {
		return a.targetElsewhere(ctx, web, what, at)
	}
	dir, err := a.dataDir(w.data)
	if err != nil {
		return nil, err
	}
	client, base, err := serve.DialAdmin(dir)
	if errors.Is(err, serve.ErrNoHost) {
		err := problem.New(problem.NotFound, "%q is no card file and no URL, and no host is running over %s", what, dir)
		return nil, withHint(err, "vacancy dev")
	}
	if err != nil {
		return nil, err
	}
	t, err := shownTarget(ctx, &admin.Client{HTTP: client, URL: base}, what)
	if problem.Is(err, problem.NotFound) {
		err := problem.New(problem.NotFound, "%q is no card file and no URL, and the host over %s has no vacant of that name", what, dir)
		return nil, withHint(err, "vacancy list")
	}
	return t, err
}

// targetElsewhere finds a vacant of a remote host: by id through its public
// card, or else through the admin API. It is called at the host's URL, whatever
// its card says.
func (a *app) targetElsewhere(ctx context.Context, web dispatch.Getter, what string, at *remoteHost) (*dispatch.Target, error) {
	public, err := at.urlOf(at.record.URL)
	if err != nil {
		return nil, err
	}
	if id, err := identity.ParseID(what); err == nil {
		t, err := dispatch.FetchTarget(ctx, web, public+"/v/"+id.String())
		if err != nil {
			return nil, err
		}
		return &t, nil
	}
	plane, key, err := at.keyed(at.record.AdminURL)
	if problem.Is(err, problem.Unauthorized) {
		return nil, withHint(problem.Wrap(problem.Unauthorized, err, "to find %q by its name the operator's key is needed", what), "the id of the vacant, or VACANCY_OPERATOR_KEY")
	}
	if err != nil {
		return nil, err
	}
	t, err := shownTarget(ctx, &admin.Client{HTTP: keyedClient(key), URL: plane}, what)
	if problem.Is(err, problem.NotFound) {
		return nil, problem.New(problem.NotFound, "%q is no card file and no URL, and the host at %s has no vacant of that name", what, public)
	}
	if err != nil {
		return nil, keyHint(at, err)
	}
	t.URL, err = dispatch.SendURL(public + "/v/" + t.ID.String())
	return t, err
}

// shownTarget is the target of a vacant found by the admin API.
func shownTarget(ctx context.Context, plane *admin.Client, what string) (*dispatch.Target, error) {
	v, err := plane.Show(ctx, what)
	if err != nil {
		return nil, err
	}
	if v.Deleted != "" {
		return nil, problem.New(problem.Gone, "%s was deleted", v.Name)
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
