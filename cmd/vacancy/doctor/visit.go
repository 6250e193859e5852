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
	Public       string
	FunctionURLs map[string]string // keyed by function
	Admin        string
	// Registry and Search are "" if the stage has no registry.
	Registry, Search string
	Graduate         string // "" if the stage has no gate
	Gateway          string // "" if the stage has no accounts
	Edge             bool
	OperatorKey      string
}

// HasOperatorAccess reports whether the admin API accepts the operator's key.
func (a *HostAnswers) HasOperatorAccess() bool {
	return !a.Absent && !a.NoKey && a.Operator.Err == nil && a.Operator.Status == http.StatusOK
}

const maxAnswerBytes = 64 << 10

// AskHost sends requests to the host's handlers, and records failures in its result. random
// provides the challenge that the host signs.
func AskHost(ctx context.Context, httpClient *http.Client, urls URLs, random io.Reader) HostAnswers {
	answers := HostAnswers{Absent: urls.Public == "" && len(urls.FunctionURLs) == 0, Edge: urls.Edge, NoKey: urls.OperatorKey == "", DirectAnswers: map[string]Answer{}}
	if answers.Absent {
		return answers
	}
	for function, url := range urls.FunctionURLs {
		if urls.Edge {
			answers.DirectAnswers[function], _ = fetchAnswer(ctx, httpClient, url+"/health", "")
		}
	}
	public := urls.Public
	if public == "" {
		public = urls.FunctionURLs["agent"]
	}
	answers.Health, _ = fetchAnswer(ctx, httpClient, public+"/health", "")
	answers.Agent, _ = fetchAnswer(ctx, httpClient, public+"/.well-known/agent-card.json", "")
	answers.askServices(ctx, httpClient, urls)
	if answers.NoKey {
		return answers
	}
	if urls.Admin == "" {
		answers.Operator.Err = problem.New(problem.NotFound, "the stage's record has no URL of it")
		return answers
	}
	randomBytes := make([]byte, 24)
	if _, err := io.ReadFull(random, randomBytes); err != nil {
		answers.Operator.Err = err
		return answers
	}
	challenge := base64.RawURLEncoding.EncodeToString(randomBytes)
	var body []byte
	answers.Operator, body = fetchAnswer(ctx, httpClient, urls.Admin+"/v1/admin/host?challenge="+challenge, urls.OperatorKey)
	if answers.Operator.Status != http.StatusOK {
		return answers
	}
	if err := json.Unmarshal(body, &answers.Host); err != nil {
		answers.Operator = Answer{Err: fmt.Errorf("the answer at %s is not an admin API's: %w", urls.Admin, err)}
		return answers
	}
	answers.IdentityProved = answers.Host.HasValidProof(challenge)
	return answers
}

// missingGraduation does not exist, so the handler must answer 404 with an error code.
const missingGraduation = "/v1/graduations/0000000000000000000000000000000000000000000000000000000000000000-1"

func (a *HostAnswers) askServices(ctx context.Context, httpClient *http.Client, urls URLs) {
	if a.NoGate = urls.Graduate == ""; !a.NoGate {
		a.Graduate, _ = fetchAnswer(ctx, httpClient, urls.Graduate+missingGraduation, "")
	}
	if a.NoAccounts = urls.Gateway == ""; !a.NoAccounts {
		a.Gateway, _ = fetchAnswer(ctx, httpClient, urls.Gateway+"/a2a/v1/status", "")
	}
	a.NoRegistry = urls.Registry == "" || urls.Search == ""
	if a.NoRegistry {
		return
	}
	a.Registry, _ = fetchAnswer(ctx, httpClient, urls.Registry+"/v1/revocation_list?limit=1", "")
	a.Log, _ = fetchAnswer(ctx, httpClient, urls.Registry+"/v1/checkpoint", "")
	a.Search, _ = fetchAnswer(ctx, httpClient, urls.Search+"/v1/search?limit=1", "")
}

// fetchAnswer sends one request without following redirects.
func fetchAnswer(ctx context.Context, httpClient *http.Client, url, key string) (Answer, []byte) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Answer{Err: err}, nil
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	client := *httpClient
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		return Answer{Err: err}, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return Answer{Err: err}, nil
	}
	var refusal struct{ Code string }
	_ = json.Unmarshal(body, &refusal) // a page of another server has no code
	return Answer{Status: resp.StatusCode, Code: refusal.Code}, body
}
