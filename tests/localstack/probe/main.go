// Command probe is a Lambda function that makes the AWS calls which its caller requests, so that
// tests of the local cloud know each of its calls.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/smithy-go"
)

// answer of every path.
type answer struct {
	PID      int    `json:"pid"`
	Error    string `json:"error"`
	SourceIP string `json:"source_ip"`
	Trace    string `json:"trace"`
}

type probe struct {
	tables *dynamodb.Client
	keys   *kms.Client
}

func main() {
	if words := os.Getenv("FAIL_INIT"); words != "" {
		log.Fatal(words)
	}
	// The faults are counted by tries.
	cfg, err := config.LoadDefaultConfig(context.Background(), config.WithRetryMaxAttempts(1))
	if err != nil {
		log.Fatal(err)
	}
	p := probe{dynamodb.NewFromConfig(cfg), kms.NewFromConfig(cfg)}
	lambda.Start(p.handle)
}

func (p probe) handle(ctx context.Context, e events.LambdaFunctionURLRequest) (events.LambdaFunctionURLResponse, error) {
	log.Print("asked for ", e.RawPath)
	key := e.QueryStringParameters["key"]
	var err error
	switch e.RawPath {
	case "/put":
		err = p.put(ctx, key)
	case "/put-and-get":
		if err = p.put(ctx, key); err == nil {
			err = p.get(ctx, key)
		}
	case "/transact":
		err = p.transact(ctx, key)
	case "/seal":
		_, err = p.keys.Encrypt(ctx, &kms.EncryptInput{
			KeyId: aws.String(os.Getenv("KEY")), Plaintext: []byte("secret words"), EncryptionContext: map[string]string{"vacancy": key},
		})
	case "/exit":
		os.Exit(3)
	case "/sleep":
		time.Sleep(time.Minute)
	case "/eat":
		eat()
	}
	out, err := json.Marshal(answer{os.Getpid(), code(err), e.RequestContext.HTTP.SourceIP, os.Getenv("_X_AMZN_TRACE_ID")})
	return events.LambdaFunctionURLResponse{StatusCode: 200, Body: string(out)}, err
}

func (p probe) put(ctx context.Context, key string) error {
	_, err := p.tables.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: aws.String(os.Getenv("TABLE")), Item: item(key), ConditionExpression: aws.String("attribute_not_exists(k)"),
	})
	return err
}

func (p probe) get(ctx context.Context, key string) error {
	_, err := p.tables.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(os.Getenv("TABLE")), Key: item(key)})
	return err
}

func (p probe) transact(ctx context.Context, key string) error {
	table := aws.String(os.Getenv("TABLE"))
	_, err := p.tables.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Put: &types.Put{TableName: table, Item: item(key), ConditionExpression: aws.String("attribute_not_exists(k)")}},
		{Delete: &types.Delete{TableName: table, Key: item(key + "-other")}},
	}})
	return err
}

func item(key string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"k": &types.AttributeValueMemberS{Value: key}}
}

// eat takes more memory than the function has.
func eat() {
	hoard := make([]byte, 300<<20)
	for i := range hoard {
		hoard[i] = 1
	}
	time.Sleep(10 * time.Second)
	fmt.Print(len(hoard))
}

// code is the AWS error code of err, or "cut" for a connection that ended.
func code(err error) string {
	var api smithy.APIError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &api):
		return api.ErrorCode()
	case strings.Contains(err.Error(), "EOF") || strings.Contains(err.Error(), "connection reset"):
		return "cut"
	}
	return err.Error()
}
