//go:build unix

package lambda

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/integration/policy"
)

// judge passes a function's requests on to DynamoDB Local, and fails the test for each request that the policy of the
// function's role does not allow. It returns the URL for the function.
func judge(tb testing.TB, function string, host *awshost.Host) string {
	tb.Helper()
	doc, err := os.ReadFile(filepath.Join("..", "..", "infra", "policies", function+".json"))
	if err != nil {
		tb.Fatal(err)
	}
	role, err := policy.Parse(doc)
	if err != nil {
		tb.Fatal(err)
	}
	to, err := url.Parse(host.Endpoint)
	if err != nil {
		tb.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // the signature covers it
	}, ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
		panic(http.ErrAbortHandler) // the function was killed
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler) // the function was killed
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if operation, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB_20120810."); ok {
			for _, q := range questions(operation, body, host) {
				if keys := q.Context["dynamodb:leadingkeys"]; slices.Contains(keys, vacants.SelfDocs.Partition) {
					continue // the policies are of stages whose identity is in KMS
				}
				if allowed, _ := role.Decide(q); !allowed {
					tb.Errorf("%s on %s with the keys %q is not allowed by the role of %s", q.Action, q.Resource, q.Context["dynamodb:leadingkeys"], function)
				}
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	tb.Cleanup(server.Close)
	return server.URL
}

// part is a request to DynamoDB, or a part of a transaction.
type part struct {
	TableName, IndexName, KeyConditionExpression string
	Item, Key                                    map[string]struct{ S string }
	ExpressionAttributeValues                    map[string]struct{ S string }
}

// questions returns what DynamoDB may ask IAM about a request: each part of it, and the parts of one action and table
// with their keys merged.
func questions(operation string, body []byte, host *awshost.Host) []policy.Request {
	names := map[string]string{"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem", "Get": "GetItem"}
	var request struct {
		part
		TransactItems []map[string]part
	}
	_ = json.Unmarshal(body, &request) // rows have keys of bytes, which the policies do not restrict
	if request.TransactItems == nil {
		request.TransactItems, names[operation] = []map[string]part{{operation: request.part}}, operation
	}
	var each []policy.Request
	for _, item := range request.TransactItems {
		for kind, p := range item {
			q := policy.Request{Action: "dynamodb:" + names[kind], Resource: map[string]string{host.Tables.Rows: "data.Rows.Arn", host.Tables.Docs: "data.Docs.Arn"}[p.TableName], Context: map[string][]string{}}
			if p.IndexName != "" {
				q.Resource += "/index/" + p.IndexName
			}
			for _, key := range []string{p.Item["pk"].S, p.Key["pk"].S, p.queried()} {
				if key != "" {
					q.Context["dynamodb:leadingkeys"] = []string{key}
				}
			}
			each = append(each, q)
		}
	}
	return append(each, policy.Merge(each, "dynamodb:leadingkeys")...)
}

// queried returns the partition of a query, which its condition compares first.
func (p part) queried() string {
	_, value, _ := strings.Cut(p.KeyConditionExpression, "=")
	name, _, _ := strings.Cut(strings.TrimSpace(value), " ")
	return p.ExpressionAttributeValues[name].S
}
