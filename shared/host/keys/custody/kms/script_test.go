package kms_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody/kms"
)

// keyARN is the key of scripted tests.
const keyARN = "arn:aws:kms:us-east-1:000000000000:key/11111111-2222-3333-4444-555555555555"

// service is a key service with prepared answers, one for each request and the
// last for all later ones; it records the requests.
type service struct {
	t  *testing.T
	mu sync.Mutex
	// answers are JSON bodies; "!TYPE" is an error of that type, with status
	// 500 if TYPE ends so.
	answers []string
	asked   []asked
}

type asked struct {
	Operation string
	Body      map[string]any
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	b, _ := io.ReadAll(r.Body)
	a := asked{Operation: operation}
	if err := json.Unmarshal(b, &a.Body); err != nil {
		s.t.Errorf("request %s: %v", b, err)
	}
	s.asked = append(s.asked, a)
	answer := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	if kind, failed := strings.CutPrefix(answer, "!"); failed {
		status := http.StatusBadRequest
		if strings.HasSuffix(kind, "InternalException") || strings.HasSuffix(kind, "TimeoutException") {
			status = http.StatusInternalServerError
		}
		w.WriteHeader(status)
		answer = `{"__type":"` + kind + `","message":"so it is"}`
	}
	_, _ = io.WriteString(w, answer)
}

func scripted(t *testing.T, answers ...string) (*service, *awskms.Client) {
	t.Helper()
	s := &service{t: t, answers: answers}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return s, clientAt(srv.URL)
}

func clientAt(endpoint string) *awskms.Client {
	return kms.NewClient(aws.Config{
		Region: "us-east-1",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	}, func(o *awskms.Options) { o.BaseEndpoint = &endpoint })
}
