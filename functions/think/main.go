// Command think is the Lambda function that calls models, Lambda functions, MCP servers and
// programs with a secret. Each invocation by message or admin is one turn or tool.
package main

import "github.com/vacancy-host/vacancy/shared/front/onlambda/cloudthink"

func main() { cloudthink.Run() }
