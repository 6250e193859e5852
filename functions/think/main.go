// Command think is the Lambda function that asks models, Lambda functions, MCP servers and
// programs with a secret, one turn or tool for each invocation by message or admin.
package main

import "github.com/vacancy-host/vacancy/shared/front/onlambda/cloudthink"

func main() { cloudthink.Run() }
