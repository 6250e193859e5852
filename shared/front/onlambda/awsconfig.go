package onlambda

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/smithy-go/logging"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// loadAWSConfig replaces the SDK's own loader, which would add half a megabyte to each program.
func loadAWSConfig(ctx context.Context, getenv func(string) string, log *slog.Logger) (aws.Config, error) {
	cfg := aws.Config{
		Region: getenv("AWS_REGION"),
		Logger: logging.LoggerFunc(func(_ logging.Classification, format string, v ...any) {
			log.LogAttrs(ctx, slog.LevelWarn, "sdk", slog.String("text", fmt.Sprintf(format, v...)))
		}),
		ConfigSources:              []any{endpointResolver{getenv}},
		AccountIDEndpointMode:      aws.AccountIDEndpointModePreferred,
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported,
	}
	id, secret := getenv("AWS_ACCESS_KEY_ID"), getenv("AWS_SECRET_ACCESS_KEY")
	for name, value := range map[string]string{"AWS_REGION": cfg.Region, "AWS_ACCESS_KEY_ID": id, "AWS_SECRET_ACCESS_KEY": secret} {
		if value == "" {
			return cfg, problem.New(problem.Usage, "%s: expected a value, which Lambda sets, got nothing", name)
		}
	}
	cfg.Credentials = credentials.NewStaticCredentialsProvider(id, secret, getenv("AWS_SESSION_TOKEN"))
	if url := getenv("AWS_ENDPOINT_URL"); url != "" {
		cfg.BaseEndpoint = &url
	}
	return cfg, nil
}

type endpointResolver struct{ getenv func(string) string }

func (e endpointResolver) GetServiceBaseEndpoint(_ context.Context, service string) (string, bool, error) {
	url := e.getenv("AWS_ENDPOINT_URL_" + strings.ReplaceAll(strings.ToUpper(service), " ", "_"))
	return url, url != "", nil
}
