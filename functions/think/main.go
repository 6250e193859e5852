// Command think is the Lambda function that calls models, Lambda functions, MCP servers and
// programs with a secret.
package main

import "github.com/vacancy-host/vacancy/shared/front/onlambda/cloudthink"

func main() { cloudthink.Run() }
