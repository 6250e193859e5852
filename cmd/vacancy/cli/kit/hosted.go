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

// FindHostedTarget finds a vacant by its name or id on the chosen host. If the vacant does not
// exist, the error has kind NotFound.
func (a *App) FindHostedTarget(ctx context.Context, transport dispatch.Getter, ref string, where HostFlags) (*dispatch.Target, error) {
	host, err := a.FindRemoteHost(where)
	if err != nil {
		return nil, err
	}
	if registry.CheckName(ref) != nil && !isID(ref) {
		err := problem.New(problem.NotFound, "%q is not a card file, a URL or the name of a vacant", ref)
		if strings.Contains(ref, "/v/") {
			return nil, WithHint(err, "%s", a.CommandLineReplacing(ref, "https://"+ref))
		}
		return nil, err
	}
	if host != nil {
		return a.findRemoteTarget(ctx, transport, ref, host)
	}
	local, err := a.DialAdmin(where)
	if errors.Is(err, serve.ErrNoHost) {
		hostErr, hinted := a.NoHostError(where.Data), new(HintedError)
		err := problem.New(problem.NotFound, "%q is not a card file or a URL: %s", ref, problem.AsError(hostErr).Text())
		if errors.As(hostErr, &hinted) {
			return nil, WithHint(err, "%s", hinted.Hint)
		}
		return nil, WithHint(err, "%s    # a vacant of another host", a.CommandLineReplacing(ref, "https://HOST/v/"+ref+"/"))
	}
	if err != nil {
		return nil, err
	}
	t, err := fetchAdminTarget(ctx, local, ref)
	if problem.Is(err, problem.NotFound) {
		dir, _ := a.DataDir(where.Data) // cannot fail after DialAdmin
		err := problem.New(problem.NotFound, "%q is not a card file or a URL, and the host in %s has no vacant of that name", ref, dir)
		return nil, WithHint(err, "vacancy list")
	}
	return t, err
}

// findRemoteTarget finds a vacant through its public card. Closed children have no public card, so
// an operator's run then asks the admin API.
func (a *App) findRemoteTarget(ctx context.Context, transport dispatch.Getter, ref string, host *RemoteHost) (*dispatch.Target, error) {
	publicURL, err := host.RequireURL(host.Record.URL)
	if err != nil {
		return nil, err
	}
	t, err := a.fetchPublicTarget(ctx, transport, publicURL, ref)
	adminURL, key, keyErr := host.operatorAccess(host.Record.AdminURL)
	if keyErr != nil || !problem.Is(err, problem.NotFound) || isID(ref) {
		return t, err
	}
	adminClient := &admin.Client{HTTP: a.KeyedClient(key), URL: adminURL}
	t, err = fetchAdminTarget(ctx, adminClient, ref)
	if problem.Is(err, problem.NotFound) {
		err := problem.New(problem.NotFound, "%q is not a card file or a URL, and the host at %s has no vacant of that name", ref, publicURL)
		return nil, WithHint(err, "vacancy list")
	}
	if err != nil {
		return nil, addKeyHint(host, err)
	}
	t.URL, err = dispatch.SendURL(publicURL + "/v/" + t.ID.String())
	return t, err
}

// PublicVacantURL returns the public URL of a vacant if ref is a URL, or a name or id on a host
// that the user does not operate. Otherwise ok is false.
func (a *App) PublicVacantURL(where HostFlags, ref string) (url string, ok bool) {
	if IsURL(ref) {
		return ref, true
	}
	host, err := a.FindRemoteHost(where)
	if err != nil || host == nil || host.Stage != "" || registry.CheckName(ref) != nil && !isID(ref) {
		return "", false
	}
	if _, _, err := host.operatorAccess(host.Record.AdminURL); err == nil || a.Env[AccountKeyEnv] != "" {
		return "", false
	}
	return host.Record.URL + "/v/" + ref, true
}

func (a *App) IsOperator(where HostFlags) bool {
	host, err := a.FindRemoteHost(where)
	if err != nil || host == nil {
		return err == nil
	}
	_, _, err = host.operatorAccess(host.Record.AdminURL)
	return err == nil
}

func (a *App) fetchPublicTarget(ctx context.Context, transport dispatch.Getter, publicURL, ref string) (*dispatch.Target, error) {
	t, err := dispatch.FetchTarget(ctx, transport, publicURL+"/v/"+ref)
	if err == nil {
		t.Name = ref
		return &t, nil
	}
	if !problem.Is(err, problem.NotFound) {
		return nil, err
	}
	if identity.IsShort(ref) {
		client := &registryclient.Client{Transport: a.RegistryTransport(publicURL, a.HTTPTransport(0)), URL: publicURL}
		page, err := client.Search(ctx, registryclient.Query{ShortID: ref, Limit: 2})
		if err != nil {
			return nil, err
		}
		var matches []identity.ID
		for i := range page.Matches {
			if id := page.Matches[i].ID; id.Short() == ref {
				matches = append(matches, id)
			}
		}
		switch len(matches) {
		case 0:
			return nil, problem.New(problem.NotFound, "the host at %s has published no vacant whose id begins with %s; other vacants are found only by their full id", publicURL, ref)
		case 1:
			t, err := dispatch.FetchTarget(ctx, transport, publicURL+"/v/"+matches[0].String())
			return &t, err
		}
		return nil, problem.New(problem.Usage, "%s is the beginning of several ids: %s, %s", ref, matches[0], matches[1])
	}
	if isID(ref) {
		return nil, problem.New(problem.NotFound, "vacant %.12s is not hosted at %s, or only its parent may call it", ref, publicURL)
	}
	return nil, WithHint(problem.New(problem.NotFound, "%q is not a card file or a URL, and the host at %s has no vacant of that name", ref, publicURL), "vacancy search --registry %s", publicURL)
}

func fetchAdminTarget(ctx context.Context, adminClient op.Client, ref string) (*dispatch.Target, error) {
	v, err := admin.ShowVacant.Call(ctx, adminClient, admin.VacantRef{Vacant: ref})
	if err != nil {
		return nil, err
	}
	if v.DeletedAt != "" {
		return nil, problem.New(problem.Gone, "%s was deleted", v.Name)
	}
	c, err := card.Parse(v.Card)
	if err != nil {
		return nil, problem.Wrap(problem.Damaged, err, "the card of %s cannot be read", ref)
	}
	t := &dispatch.Target{ID: v.ID, URL: v.Endpoint, Card: &c, Name: ref, HasMemory: v.Memory}
	if base, _, ok := strings.Cut(v.Endpoint, "/v/"); ok && ref == v.Name {
		t.Address = base + "/v/" + ref
	}
	return t, nil
}

func isID(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}
