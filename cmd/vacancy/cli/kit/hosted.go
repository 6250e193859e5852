package kit

import (
	"context"
	"errors"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// HostedTarget finds a vacant by its name or id on the chosen host. If the vacant does not exist,
// it returns nil and an error of kind NotFound.
func (a *App) HostedTarget(ctx context.Context, web dispatch.Getter, what string, w Where) (*dispatch.Target, error) {
	host, err := a.Find(w)
	if err != nil {
		return nil, err
	}
	if registry.CheckName(what) != nil && !isID(what) {
		err := problem.New(problem.NotFound, "%q is not a card file, a URL or the name of a vacant", what)
		if strings.Contains(what, "/v/") {
			return nil, WithHint(err, "%s", a.CommandLineFor(what, "https://"+what))
		}
		return nil, err
	}
	if host != nil {
		return a.targetElsewhere(ctx, web, what, host)
	}
	local, err := a.RunningAdmin(w)
	if errors.Is(err, serve.ErrNoHost) {
		missing, stopped := a.NoHost(w.Data), new(Hinted)
		err := problem.New(problem.NotFound, "%q is not a card file or a URL: %s", what, problem.AsError(missing).Text())
		if errors.As(missing, &stopped) {
			return nil, WithHint(err, "%s", stopped.Hint)
		}
		return nil, WithHint(err, "%s    # a vacant of another host", a.CommandLineFor(what, "https://HOST/v/"+what+"/"))
	}
	if err != nil {
		return nil, err
	}
	t, err := shownTarget(ctx, local, what)
	if problem.Is(err, problem.NotFound) {
		dir, _ := a.DataDir(w.Data) // cannot fail, because RunningAdmin has already determined the directory
		err := problem.New(problem.NotFound, "%q is not a card file or a URL, and the host in %s has no vacant of that name", what, dir)
		return nil, WithHint(err, "vacancy list")
	}
	return t, err
}

// targetElsewhere finds a vacant of a remote host through its public card or else, with the
// operator's key, through the admin API, which also finds closed children. The target has the
// host's URL, even if its card names another one.
func (a *App) targetElsewhere(ctx context.Context, web dispatch.Getter, what string, host *RemoteHost) (*dispatch.Target, error) {
	public, err := host.URLOf(host.Record.URL)
	if err != nil {
		return nil, err
	}
	t, err := a.publicTarget(ctx, web, public, what)
	plane, key, keyErr := host.operatorURL(host.Record.AdminURL)
	if keyErr != nil || !problem.Is(err, problem.NotFound) || isID(what) {
		return t, err
	}
	operated := &admin.Client{HTTP: a.KeyedClient(key), URL: plane}
	t, err = shownTarget(ctx, operated, what)
	if problem.Is(err, problem.NotFound) {
		err := problem.New(problem.NotFound, "%q is not a card file or a URL, and the host at %s has no vacant of that name", what, public)
		return nil, WithHint(err, "vacancy list")
	}
	if err != nil {
		return nil, keyHint(host, err)
	}
	t.URL, err = dispatch.SendURL(public + "/v/" + t.ID.String())
	return t, err
}

// PublicURL returns the public URL of a vacant that the user named by its URL, or by its name or id
// on a host that the user does not operate. ok is false for vacants of the user's own hosts.
func (a *App) PublicURL(w Where, what string) (url string, ok bool) {
	if IsURL(what) {
		return what, true
	}
	host, err := a.Find(w)
	if err != nil || host == nil || host.Stage != "" || registry.CheckName(what) != nil && !isID(what) {
		return "", false
	}
	if _, _, err := host.operatorURL(host.Record.AdminURL); err == nil || a.Env[AccountKeyEnv] != "" {
		return "", false
	}
	return host.Record.URL + "/v/" + what, true
}

func (a *App) IsOperator(w Where) bool {
	host, err := a.Find(w)
	if err != nil || host == nil {
		return err == nil
	}
	_, _, err = host.operatorURL(host.Record.AdminURL)
	return err == nil
}

func (a *App) publicTarget(ctx context.Context, web dispatch.Getter, public, what string) (*dispatch.Target, error) {
	t, err := dispatch.FetchTarget(ctx, web, public+"/v/"+what)
	if err == nil {
		t.Name = what
		return &t, nil
	}
	if !problem.Is(err, problem.NotFound) {
		return nil, err
	}
	if identity.IsShort(what) {
		client := &registryclient.Client{Transport: a.WithSearchURL(public, a.HTTP(0)), URL: public}
		found, err := client.Search(ctx, registryclient.Query{ShortID: what, Limit: 2})
		if err != nil {
			return nil, err
		}
		var fit []identity.ID
		for i := range found.Matches {
			if id := found.Matches[i].ID; id.Short() == what {
				fit = append(fit, id)
			}
		}
		switch len(fit) {
		case 0:
			return nil, problem.New(problem.NotFound, "the host at %s has published no vacant whose id begins with %s; other vacants are found only by their full id", public, what)
		case 1:
			t, err := dispatch.FetchTarget(ctx, web, public+"/v/"+fit[0].String())
			return &t, err
		}
		return nil, problem.New(problem.Usage, "%s is the beginning of several ids: %s, %s", what, fit[0], fit[1])
	}
	if isID(what) {
		return nil, problem.New(problem.NotFound, "vacant %.12s is not hosted at %s, or only its parent may call it", what, public)
	}
	return nil, WithHint(problem.New(problem.NotFound, "%q is not a card file or a URL, and the host at %s has no vacant of that name", what, public), "vacancy search --registry %s", public)
}

func shownTarget(ctx context.Context, plane op.Client, what string) (*dispatch.Target, error) {
	v, err := admin.ShowVacant.Call(ctx, plane, admin.VacantRequest{Vacant: what})
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
	t := &dispatch.Target{ID: v.ID, URL: v.Endpoint, Card: &c, Name: what, Memory: v.Memory}
	if base, _, ok := strings.Cut(v.Endpoint, "/v/"); ok && what == v.Name {
		t.Address = base + "/v/" + what
	}
	return t, nil
}

func isID(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}
