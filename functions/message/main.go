// Command message is the Lambda function behind the door of signed calls:
// message/send, chain/reset, message/ask, card and health.
package main

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/custody/local"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	h, err := handler(context.Background(), log)
	if err != nil {
		log.Error("start", "error", err)
		os.Exit(1)
	}
	proxy := httpadapter.NewV2(h)
	lambda.Start(func(ctx context.Context, e events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
		answer, err := proxy.ProxyWithContext(ctx, e)
		if err != nil { // no HTTP request can be made of the event: the client's doing, not a fault of ours
			return events.APIGatewayV2HTTPResponse{StatusCode: http.StatusBadRequest, Headers: map[string]string{"Content-Type": "application/json"},
				Body: `{"detail":"path or method: expected those of an HTTP request","code":"malformed"}`}, nil
		}
		return answer, nil
	})
}

// handler is made of the environment: VACANCY_ROWS and VACANCY_DOCS name the
// tables, VACANCY_URL is the host's base URL, VACANCY_SEAL_KEY the sealing key
// as 64 hex digits.
func handler(ctx context.Context, log *slog.Logger) (http.Handler, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	vault, err := local.FromHex(os.Getenv("VACANCY_SEAL_KEY"), rand.Reader)
	if err != nil {
		return nil, err
	}
	house, err := serve.Home{
		Store: dynamo.New(dynamo.NewClient(cfg), dynamo.Tables{Rows: os.Getenv("VACANCY_ROWS"), Docs: os.Getenv("VACANCY_DOCS")}),
		Vault: vault, Substrates: serve.Substrates(false), URL: os.Getenv("VACANCY_URL"), Log: log, Now: time.Now, Rand: rand.Reader,
	}.Open()
	if err != nil {
		return nil, err
	}
	return serve.Public(house.Message), nil
}
