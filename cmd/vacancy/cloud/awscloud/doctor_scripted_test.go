package awscloud_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/awscloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
)

// scripted gives AWS's responses that LocalStack cannot give: credentials,
// clock and quotas. They follow the documentation of each service's protocol.
type scripted struct {
	identity   string // body of STS's answer
	status     int
	date       time.Time // of the Date header; the zero time means now
	limit      int       // of Lambda's account
	unreserved int
	specs      string // of KMS, as in a schema; "" means that types may not be described
	lacks      string // the type of resource that the Region does not have
}

const stsIdentity = `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>` +
	`<Arn>arn:aws:iam::111122223333:user/ada</Arn><UserId>AIDAEXAMPLE</UserId><Account>111122223333</Account>` +
	`</GetCallerIdentityResult><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></GetCallerIdentityResponse>`

func stsError(code, message string) string {
	return fmt.Sprintf(`<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>%s</Code>`+
		`<Message>%s</Message></Error><RequestId>r</RequestId></ErrorResponse>`, code, message)
}

// noStack is CloudFormation's response for a missing stack.
const noStack = `<ErrorResponse xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/"><Error><Type>Sender</Type>` +
	`<Code>ValidationError</Code><Message>Stack with id x does not exist</Message></Error><RequestId>r</RequestId></ErrorResponse>`

func (s scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.date.IsZero() {
		w.Header().Set("Date", s.date.UTC().Format(http.TimeFormat))
	}
	switch {
	case strings.HasPrefix(r.URL.Path, "/2016-08-19/account-settings"):
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"AccountLimit":{"CodeSizeUnzipped":262144000,"CodeSizeZipped":52428800,"ConcurrentExecutions":%d,`+
			`"TotalCodeSize":80530636800,"UnreservedConcurrentExecutions":%d},"AccountUsage":{"FunctionCount":0,"TotalCodeSize":0}}`, s.limit, s.unreserved)
	case r.Header.Get("X-Amz-Target") != "": // CloudWatch Logs: no such group
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"__type":"ResourceNotFoundException","message":"The specified log group does not exist."}`)
	default:
		if err := r.ParseForm(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "text/xml")
		if r.Form.Get("Action") == "DescribeType" {
			s.describeType(w, r.Form.Get("TypeName"))
			return
		}
		if r.Form.Get("Action") != "GetCallerIdentity" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, noStack)
			return
		}
		if s.status != 0 {
			w.WriteHeader(s.status)
		}
		fmt.Fprint(w, s.identity)
	}
}

func (s scripted) describeType(w http.ResponseWriter, name string) {
	switch {
	case s.specs == "":
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, stsError("AccessDenied", "User is not authorized to perform: cloudformation:DescribeType"))
	case name == s.lacks:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, stsError("TypeNotFoundException", "The type "+name+" cannot be found."))
	default:
		fmt.Fprintf(w, `<DescribeTypeResponse><DescribeTypeResult><TypeName>%s</TypeName><Schema>{"properties":{"KeySpec":{"type":"string","enum":[%s]}}}</Schema></DescribeTypeResult></DescribeTypeResponse>`, name, s.specs)
	}
}

// at is a Cloud at an endpoint.
func at(endpoint, region string) *awscloud.Cloud {
	return awscloud.With(aws.Config{
		Region: region, BaseEndpoint: &endpoint,
		Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", ""),
		Retryer:     func() aws.Retryer { return aws.NopRetryer{} },
	})
}

func TestDoctorNamesWhatIsWrongWithAnAccount(t *testing.T) {
	whole := scripted{identity: stsIdentity, limit: 1000, unreserved: 1000, specs: `"RSA_2048","ECC_NIST_EDWARDS25519"`}
	for _, tt := range []struct {
		fault   string
		check   string
		verdict doctor.Verdict
		fix     string
		make    func(*scripted)
	}{
		{"nothing", "credentials", doctor.OK, "", func(*scripted) {}},
		{"nothing with the clock", "clock", doctor.OK, "", func(*scripted) {}},
		{"nothing with the quota", "quota", doctor.OK, "", func(*scripted) {}},
		{"expired", "credentials", doctor.Fail, "aws sso login", func(s *scripted) {
			s.status, s.identity = 403, stsError("ExpiredToken", "The security token included in the request is expired")
		}},
		{"unknown key", "credentials", doctor.Fail, "aws sts get-caller-identity", func(s *scripted) {
			s.status, s.identity = 403, stsError("InvalidClientTokenId", "The security token included in the request is invalid.")
		}},
		{"wrong secret", "credentials", doctor.Fail, "aws sts get-caller-identity", func(s *scripted) {
			s.status, s.identity = 403, stsError("SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided.")
		}},
		{"denied", "credentials", doctor.Fail, "aws sts get-caller-identity", func(s *scripted) {
			s.status, s.identity = 403, stsError("AccessDenied", "User is not authorized to perform: sts:GetCallerIdentity with an explicit deny")
		}},
		{"clock behind", "clock", doctor.Warn, "timedatectl", func(s *scripted) { s.date = time.Now().Add(2 * time.Minute) }},
		{"clock far ahead", "clock", doctor.Fail, "timedatectl", func(s *scripted) {
			s.date = time.Now().Add(-10 * time.Minute)
			s.status, s.identity = 403, stsError("SignatureDoesNotMatch", "Signature not yet current: 20260101T001000Z is still later than 20260101T000500Z")
		}},
		{"new account", "quota", doctor.Fail, "L-B99A9384", func(s *scripted) { s.limit, s.unreserved = 10, 10 }},
		{"account with a quota of 50", "quota", doctor.Fail, "--context reserve=false", func(s *scripted) { s.limit, s.unreserved = 50, 50 }},
		{"all types", "resource types", doctor.OK, "", func(*scripted) {}},
		{"Ed25519", "key spec", doctor.OK, "", func(*scripted) {}},
		{"a Region without Function URLs", "resource types", doctor.Fail, "export AWS_REGION=us-east-1", func(s *scripted) { s.lacks = "AWS::Lambda::Url" }},
		{"a Region without budgets", "resource types", doctor.OK, "", func(s *scripted) { s.lacks = "AWS::Budgets::Budget" }}, // without an address there is none
		{"a Region without Ed25519", "key spec", doctor.Fail, "hostKey=software", func(s *scripted) { s.specs = `"RSA_2048"` }},
		{"no right to see the types", "resource types", doctor.Warn, "aws sts", func(s *scripted) { s.specs = "" }},
		{"no right to see the key specs", "key spec", doctor.NotApplicable, "", func(s *scripted) { s.specs = "" }},
		{"no bootstrap", "bootstrap", doctor.Fail, "vacancy deploy --stage dev --bootstrap", func(*scripted) {}},
		{"no stage", "stack data", doctor.Fail, "vacancy deploy --stage dev", func(*scripted) {}},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			s := whole
			tt.make(&s)
			server := httptest.NewServer(s)
			defer server.Close()
			f := at(server.URL, "us-east-1").Examine(t.Context(), "dev", time.Now)
			f.Want(nil, "us-east-1")
			c := doctor.Examine(f).Find(tt.check)
			if c.Verdict != tt.verdict || !strings.Contains(c.Fix, tt.fix) {
				t.Errorf("check = %+v, want %s with a fix of %q", c, tt.verdict, tt.fix)
			}
		})
	}
}

func TestDoctorSaysThatNoCredentialsRegionOrNetworkWereFound(t *testing.T) {
	home := t.TempDir()
	for _, tt := range []struct {
		fault string
		check string
		fix   string
		env   map[string]string
	}{
		{"no Region", "region", "export AWS_REGION", map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}},
		{"no credentials", "credentials", "aws configure", map[string]string{"AWS_REGION": "us-east-1"}},
		{"no such profile", "credentials", "aws configure", map[string]string{"AWS_REGION": "us-east-1", "AWS_PROFILE": "nobody"}},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"} {
				t.Setenv(name, tt.env[name])
			}
			t.Setenv("AWS_CONFIG_FILE", home+"/config")
			t.Setenv("AWS_SHARED_CREDENTIALS_FILE", home+"/credentials")
			t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
			_, err := awscloud.Open(context.Background(), "")
			if err == nil {
				t.Fatal("Open() = nil, want an error")
			}
			c := doctor.Examine(cloud.Blind("dev", err)).Find(tt.check)
			if c.Verdict != doctor.Fail || !strings.Contains(c.Fix, tt.fix) {
				t.Errorf("after Open() = %v: check = %+v, want FAIL with a fix of %q", err, c, tt.fix)
			}
		})
	}
	t.Run("no network", func(t *testing.T) {
		server := httptest.NewServer(nil)
		server.Close()
		f := at(server.URL, "us-east-1").Examine(t.Context(), "dev", time.Now)
		if c := doctor.Examine(f).Find("credentials"); c.Verdict != doctor.Fail || !strings.Contains(c.Fix, "AWS_ENDPOINT_URL") {
			t.Errorf("check = %+v, want FAIL with a fix that names AWS_ENDPOINT_URL", c)
		}
	})
}
