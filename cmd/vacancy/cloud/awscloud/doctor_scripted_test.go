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
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/cloudtest"
	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
)

// sound is an AWS account without a stage and without faults.
func sound(t *testing.T) *cloudtest.AWS {
	t.Helper()
	s := cloudtest.New(t)
	s.SetAccount("111122223333")
	s.SetStacks()
	s.SetError("GET /2015-03-31/event-source-mappings", "ResourceNotFoundException", "The function does not exist.")
	s.SetError("FilterLogEvents", "ResourceNotFoundException", "The specified log group does not exist.")
	setQuota(s, 1000)
	setTypes(s, `"RSA_2048","ECC_NIST_EDWARDS25519"`, "")
	return s
}

// setQuota sets the concurrent executions that Lambda allows the account.
func setQuota(s *cloudtest.AWS, limit int) {
	s.SetResponse("GET /2016-08-19/account-settings", fmt.Sprintf(`{"AccountLimit":{"ConcurrentExecutions":%d,"UnreservedConcurrentExecutions":%[1]d}}`, limit))
}

// setTypes sets the key specs of KMS, and the type of resource that the Region does not have.
func setTypes(s *cloudtest.AWS, specs, lacks string) {
	s.SetResponder("DescribeType", func(r cloudtest.Request) cloudtest.Reply {
		if name := r.Form.Get("TypeName"); name == lacks {
			return cloudtest.Reply{Code: "TypeNotFoundException", Message: "The type " + name + " cannot be found."}
		}
		return cloudtest.Reply{Body: `<DescribeTypeResponse><DescribeTypeResult><Schema>{"properties":{"KeySpec":{"type":"string","enum":[` + specs + `]}}}</Schema></DescribeTypeResult></DescribeTypeResponse>`}
	})
}

// setClock makes STS answer at a time that differs from the clock of this machine.
func setClock(s *cloudtest.AWS, skew time.Duration, answer cloudtest.Reply) {
	answer.Header = map[string]string{"Date": time.Now().Add(skew).UTC().Format(http.TimeFormat)}
	s.SetResponder("GetCallerIdentity", func(cloudtest.Request) cloudtest.Reply { return answer })
}

// at is a Cloud at an endpoint.
func at(endpoint, region string) *awscloud.Cloud {
	return awscloud.New(aws.Config{
		Region: region, BaseEndpoint: &endpoint,
		Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", ""),
		Retryer:     func() aws.Retryer { return aws.NopRetryer{} },
	})
}

func TestDoctorNamesWhatIsWrongWithAnAccount(t *testing.T) {
	nothing := func(*cloudtest.AWS) {}
	fails := func(code, message string) func(*cloudtest.AWS) {
		return func(s *cloudtest.AWS) { s.SetError("GetCallerIdentity", code, message) }
	}
	for _, tt := range []struct {
		fault   string
		check   string
		verdict doctor.Verdict
		fix     string
		make    func(*cloudtest.AWS)
	}{
		{"nothing", "credentials", doctor.OK, "", nothing},
		{"nothing with the clock", "clock", doctor.OK, "", nothing},
		{"nothing with the quota", "quota", doctor.OK, "", nothing},
		{"expired", "credentials", doctor.Fail, "aws sso login", fails("ExpiredToken", "The security token included in the request is expired")},
		{"unknown key", "credentials", doctor.Fail, "aws sts get-caller-identity", fails("InvalidClientTokenId", "The security token included in the request is invalid.")},
		{"wrong secret", "credentials", doctor.Fail, "aws sts get-caller-identity", fails("SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided.")},
		{"denied", "credentials", doctor.Fail, "aws sts get-caller-identity", fails("AccessDenied", "User is not authorized to perform: sts:GetCallerIdentity with an explicit deny")},
		{"clock behind", "clock", doctor.Warn, "timedatectl", func(s *cloudtest.AWS) {
			setClock(s, 2*time.Minute, cloudtest.Reply{Body: "<GetCallerIdentityResponse><GetCallerIdentityResult><Account>111122223333</Account><Arn>arn:aws:iam::111122223333:user/ada</Arn></GetCallerIdentityResult></GetCallerIdentityResponse>"})
		}},
		{"clock far ahead", "clock", doctor.Fail, "timedatectl", func(s *cloudtest.AWS) {
			setClock(s, -10*time.Minute, cloudtest.Reply{Code: "SignatureDoesNotMatch", Message: "Signature not yet current: 20260101T001000Z is still later than 20260101T000500Z"})
		}},
		{"new account", "quota", doctor.Fail, "L-B99A9384", func(s *cloudtest.AWS) { setQuota(s, 10) }},
		{"account with a quota of 50", "quota", doctor.Fail, "--context reserve=false", func(s *cloudtest.AWS) { setQuota(s, 50) }},
		{"all types", "resource types", doctor.OK, "", nothing},
		{"Ed25519", "key spec", doctor.OK, "", nothing},
		{"a Region without Function URLs", "resource types", doctor.Fail, "export AWS_REGION=us-east-1", func(s *cloudtest.AWS) { setTypes(s, `"ECC_NIST_EDWARDS25519"`, "AWS::Lambda::Url") }},
		{"a Region without budgets", "resource types", doctor.OK, "", func(s *cloudtest.AWS) { setTypes(s, `"ECC_NIST_EDWARDS25519"`, "AWS::Budgets::Budget") }}, // without an address there is none
		{"a Region without Ed25519", "key spec", doctor.Fail, "hostKey=software", func(s *cloudtest.AWS) { setTypes(s, `"RSA_2048"`, "") }},
		{"no right to see the types", "resource types", doctor.Warn, "aws sts", func(s *cloudtest.AWS) {
			s.SetError("DescribeType", "AccessDenied", "User is not authorized to perform: cloudformation:DescribeType")
		}},
		{"no right to see the key specs", "key spec", doctor.NotApplicable, "", func(s *cloudtest.AWS) {
			s.SetError("DescribeType", "AccessDenied", "User is not authorized to perform: cloudformation:DescribeType")
		}},
		{"no bootstrap", "bootstrap", doctor.Fail, "vacancy deploy --stage dev --bootstrap", nothing},
		{"no stage", "stack data", doctor.Fail, "vacancy deploy --stage dev", nothing},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			s := sound(t)
			tt.make(s)
			f := at(s.URL, "us-east-1").CollectFacts(t.Context(), "dev", time.Now)
			f.SetContext(nil, "us-east-1")
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
			c := doctor.Examine(cloud.FactsFromOpenError("dev", err)).Find(tt.check)
			if c.Verdict != doctor.Fail || !strings.Contains(c.Fix, tt.fix) {
				t.Errorf("after Open() = %v: check = %+v, want FAIL with a fix of %q", err, c, tt.fix)
			}
		})
	}
	t.Run("no network", func(t *testing.T) {
		server := httptest.NewServer(nil)
		server.Close()
		f := at(server.URL, "us-east-1").CollectFacts(t.Context(), "dev", time.Now)
		if c := doctor.Examine(f).Find("credentials"); c.Verdict != doctor.Fail || !strings.Contains(c.Fix, "AWS_ENDPOINT_URL") {
			t.Errorf("check = %+v, want FAIL with a fix that names AWS_ENDPOINT_URL", c)
		}
	})
}
