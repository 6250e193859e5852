// Command heard is a tenant's Lambda function that follows the agent contract.
package main

import (
	"context"

	"github.com/aws/aws-lambda-go/lambda"
)

type question struct {
	Message string `json:"message"`
}

type answer struct {
	Text string `json:"text"`
}

func main() {
	lambda.Start(func(_ context.Context, q question) (answer, error) {
		return answer{"the function heard " + q.Message}, nil
	})
}
