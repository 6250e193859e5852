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
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vacancy-host/vacancy/infra/policies"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/integration/policy"
)

// used are the grants that functions used in this run, in the form of policy.InLambda.
var used sync.Map

// unusedGrants lists the grants that the tests on LocalStack leave to this package, and that no test used.
func unusedGrants() (left []string) {
	for _, grant := range policy.InLambda {
		if _, ok := used.Load(grant); !ok {
			left = append(left, grant)
		}
	}
	return left
}

// judge puts a proxy before each service of AWS in a function's environment. It fails the test for each request that the
// policy of the function's role does not allow. Lambda and Bedrock are not judged.
func judge(tb testing.TB, function string, host *awshost.Host, env []string) []string {
	tb.Helper()
	doc, err := policies.Document(function)
	must(tb, err)
	role, err := policy.Parse(doc)
	must(tb, err)
	j := &judged{tb: tb, function: function, host: host, role: role}
	env = slices.Clone(env)
	for i, variable := range env {
		name, target, _ := strings.Cut(variable, "=")
		switch name {
		case "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL_KMS", "AWS_ENDPOINT_URL_S3":
			env[i] = name + "=" + j.proxy(target, name == "AWS_ENDPOINT_URL_S3")
		}
	}
	return env
}

// judged is a function whose requests are judged.
type judged struct {
	tb       testing.TB
	function string
	host     *awshost.Host
	role     policy.Policy
}

// proxy returns the URL of a proxy before a service.
func (j *judged) proxy(target string, s3 bool) string {
	to, err := url.Parse(target)
	if err != nil {
		j.tb.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // the signature covers it
	}, ModifyResponse: func(r *http.Response) error {
		if s3 && r.StatusCode == http.StatusNotFound { // S3 tells that an object is missing only to those who may list
			j.decide(policy.Request{Action: "s3:ListBucket", Resource: "data.Blobs.Arn", Context: map[string][]string{}})
		}
		return nil
	}, ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
		panic(http.ErrAbortHandler) // the function was killed, or the service is away
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler) // the function was killed
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		for _, q := range j.questions(r, body, s3) {
			j.decide(q)
		}
		proxy.ServeHTTP(w, r)
	}))
	j.tb.Cleanup(server.Close)
	return server.URL
}

func (j *judged) decide(q policy.Request) {
	keys := q.Context["dynamodb:leadingkeys"]
	if slices.Contains(keys, vacants.HostIdentityDocs.Partition) {
		return // the policies are of stages whose identity is in KMS
	}
	allowed, by := j.role.Decide(q)
	if !allowed {
		j.tb.Errorf("%s on %s with the keys %q is not allowed by the role of %s", q.Action, q.Resource, q.Context, j.function)
	}
	for _, use := range by {
		sid := j.function + " " + j.role[use.Statement].Sid
		used.Store(sid, true)
		used.Store(sid+" "+use.Action, true)
	}
}

// questions returns what a service may ask IAM about a request.
func (j *judged) questions(r *http.Request, body []byte, s3 bool) []policy.Request {
	if s3 {
		return []policy.Request{objectQuestion(r)}
	}
	service, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	var in struct {
		KeyId, SigningAlgorithm, QueueUrl string
		EncryptionContext                 map[string]string
	}
	_ = json.Unmarshal(body, &in) // rows have keys of bytes, which the policies do not restrict
	q := policy.Request{Context: map[string][]string{}}
	switch service {
	case "DynamoDB_20120810":
		return questions(operation, body, j.host)
	case "DynamoDBStreams_20120810":
		q.Action, q.Resource = "dynamodb:"+operation, "data.Rows.StreamArn"
	case "AmazonSQS":
		name := strings.TrimPrefix(path.Base(in.QueueUrl), "vacancy-dev-")
		q.Action, q.Resource = "sqs:"+strings.TrimSuffix(operation, "Batch"), map[string]string{"tasks": "functions.Tasks.Arn", "pushes": "functions.Pushes.Arn"}[name]
	case "TrentService":
		q.Action, q.Resource = "kms:"+operation, map[string]string{awshost.SealKey: "data.SealKey.Arn", awshost.HostKey: "data.HostKey.Arn"}[in.KeyId]
		for key, value := range in.EncryptionContext {
			q.Context["kms:encryptioncontext:"+strings.ToLower(key)] = []string{value}
			q.Context["kms:encryptioncontextkeys"] = append(q.Context["kms:encryptioncontextkeys"], key)
		}
		if in.SigningAlgorithm != "" {
			q.Context["kms:signingalgorithm"] = []string{in.SigningAlgorithm}
		}
	}
	return []policy.Request{q}
}

// objectQuestion returns the question about a request to S3.
func objectQuestion(r *http.Request) policy.Request {
	key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/"+sampleBucket), "/")
	q := policy.Request{Resource: "data.Blobs.Arn/" + key, Context: map[string][]string{}}
	q.Action = map[string]string{http.MethodGet: "s3:GetObject", http.MethodHead: "s3:GetObject", http.MethodPut: "s3:PutObject", http.MethodDelete: "s3:DeleteObject"}[r.Method]
	if key == "" {
		q.Action, q.Resource, q.Context["s3:prefix"] = "s3:ListBucket", "data.Blobs.Arn", []string{r.URL.Query().Get("prefix")}
	}
	return q
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
