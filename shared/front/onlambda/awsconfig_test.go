package onlambda

import (
	"context"
	"log/slog"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vacancy-host/vacancy/shared/problem"
)

var lambdas = map[string]string{"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token"}

// The SDK's own loader makes the same configuration from the same environment.
func TestTheConfigurationIsThatOfTheSDK(t *testing.T) {
	for _, name := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		t.Setenv(name, t.TempDir()+"/none")
	}
	for name, more := range map[string]map[string]string{
		"Lambda": {}, "another server": {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:2"},
		"one service": {"AWS_ENDPOINT_URL_DYNAMODB": "http://127.0.0.1:3"},
	} {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{}
			for _, from := range []map[string]string{lambdas, more} {
				for k, v := range from {
					env[k] = v
					t.Setenv(k, v)
				}
			}
			own, err := loadAWSConfig(t.Context(), func(k string) string { return env[k] }, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := config.LoadDefaultConfig(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			a, b := dynamodb.NewFromConfig(own).Options(), dynamodb.NewFromConfig(theirs).Options()
			x, y := s3.NewFromConfig(own).Options(), s3.NewFromConfig(theirs).Options()
			for what, pair := range map[string][2]any{
				"region": {a.Region, b.Region}, "endpoint": {a.BaseEndpoint, b.BaseEndpoint}, "endpoint of S3": {x.BaseEndpoint, y.BaseEndpoint},
				"account": {a.AccountIDEndpointMode, b.AccountIDEndpointMode}, "retries": {a.RetryMode, b.RetryMode}, "attempts": {a.RetryMaxAttempts, b.RetryMaxAttempts},
				"checksums": {x.RequestChecksumCalculation, y.RequestChecksumCalculation}, "validation": {x.ResponseChecksumValidation, y.ResponseChecksumValidation},
			} {
				if diff := cmp.Diff(pair[1], pair[0], cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s (-SDK +own):\n%s", what, diff)
				}
			}
			ours, err := a.Credentials.Retrieve(t.Context())
			if err != nil || ours.AccessKeyID != "id" || ours.SecretAccessKey != "secret" || ours.SessionToken != "token" {
				t.Errorf("credentials %v, %v", ours.AccessKeyID, err)
			}
		})
	}
}

func TestAnEnvironmentWithoutItsPartsIsRefused(t *testing.T) {
	for missing := range lambdas {
		_, err := loadAWSConfig(context.Background(), func(k string) string {
			if k == missing {
				return ""
			}
			return lambdas[k]
		}, slog.New(slog.DiscardHandler))
		if problem.Is(err, problem.Usage) != (missing != "AWS_SESSION_TOKEN") {
			t.Errorf("without %s: %v", missing, err)
		}
	}
}
