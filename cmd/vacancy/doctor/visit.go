package doctor

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/problem"
)

type URLs struct {
	URL   string            // URL for callers
	Raw   map[string]string // Function URLs by the names of the functions
	Admin string            // URL of the admin API
	// Registry and Search are the URLs for publishing and searching. They are "" if the stage has
	// no registry.
	Registry, Search string
	Graduate         string // URL of the gate; "" if the stage has no gate
	Gateway          string // URL of accounts and AGP; "" if the stage has no accounts
	Edge             bool
	Key              string // operator key, or ""
}

// HasOperatorAccess reports whether the admin API accepts the operator's key.
func (v *Visit) HasOperatorAccess() bool {
	return !v.Absent && !v.NoKey && v.Operator.Err == nil && v.Operator.Status == http.StatusOK
}

// maxAnswer limits the part of an answer that is read, in bytes.
const maxAnswer = 64 << 10

// Look sends requests to the handlers of the host. random provides the challenge that the host
// signs. Failures are recorded in the Visit.
func Look(ctx context.Context, web *http.Client, d URLs, random io.Reader) Visit {
	v := Visit{Absent: d.URL == "" && len(d.Raw) == 0, Edge: d.Edge, NoKey: d.Key == "", Raw: map[string]Answer{}}
	if v.Absent {
		return v
	}
	for function, url := range d.Raw {
		if d.Edge {
			v.Raw[function], _ = get(ctx, web, url+"/health", "")
		}
	}
	public := d.URL
	if public == "" {
		public = d.Raw["agent"]
	}
	v.Health, _ = get(ctx, web, public+"/health", "")
	v.Agent, _ = get(ctx, web, public+"/.well-known/agent-card.json", "")
	v.look(ctx, web, d)
	if v.NoKey {
		return v
	}
	if d.Admin == "" {
		v.Operator.Err = problem.New(problem.NotFound, "the stage's record has no URL of it")
		return v
	}
	b := make([]byte, 24)
	if _, err := io.ReadFull(random, b); err != nil {
		v.Operator.Err = err
		return v
	}
	challenge := base64.RawURLEncoding.EncodeToString(b)
	var body []byte
	v.Operator, body = get(ctx, web, d.Admin+"/v1/admin/host?challenge="+challenge, d.Key)
	if v.Operator.Status != http.StatusOK {
		return v
	}
	if err := json.Unmarshal(body, &v.Host); err != nil {
		v.Operator = Answer{Err: fmt.Errorf("the answer at %s is not an admin API's: %w", d.Admin, err)}
		return v
	}
	v.Proved = v.Host.Proves(challenge)
	return v
}

// missingOwner is the path of a graduation that does not exist, so the handler must answer 404 with
// an error code.
const missingOwner = "/v1/graduations/0000000000000000000000000000000000000000000000000000000000000000-1"

func (v *Visit) look(ctx context.Context, web *http.Client, d URLs) {
	if v.Ungated = d.Graduate == ""; !v.Ungated {
		v.Graduate, _ = get(ctx, web, d.Graduate+missingOwner, "")
	}
	if v.Unpaid = d.Gateway == ""; !v.Unpaid {
		v.Gateway, _ = get(ctx, web, d.Gateway+"/a2a/v1/status", "")
	}
	v.Unregistered = d.Registry == "" || d.Search == ""
	if v.Unregistered {
		return
	}
	v.Registry, _ = get(ctx, web, d.Registry+"/v1/revocation_list?limit=1", "")
	v.Log, _ = get(ctx, web, d.Registry+"/v1/checkpoint", "")
	v.Search, _ = get(ctx, web, d.Search+"/v1/search?limit=1", "")
}

// get sends one request without following redirects, and parses the error code of a refusal.
func get(ctx context.Context, web *http.Client, url, key string) (Answer, []byte) {
	in, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Answer{Err: err}, nil
	}
	if key != "" {
		in.Header.Set("Authorization", "Bearer "+key)
	}
	client := *web
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	out, err := client.Do(in)
	if err != nil {
		return Answer{Err: err}, nil
	}
	defer out.Body.Close()
	body, err := io.ReadAll(io.LimitReader(out.Body, maxAnswer))
	if err != nil {
		return Answer{Err: err}, nil
	}
	var refusal struct{ Code string }
	_ = json.Unmarshal(body, &refusal) // a page of another server has no code
	return Answer{Status: out.StatusCode, Code: refusal.Code}, body
}
