// Command think is the Lambda function that calls models, Lambda functions, MCP servers and
// programs with a secret. Each invocation serves one request of another function, for example one
// turn of a conversation.
package main

import "github.com/vacancy-host/vacancy/shared/front/onlambda/cloudthink"

func main() { cloudthink.Run() }
