// Command agent is the Lambda function of A2A and MCP.
package main

import "github.com/vacancy-host/vacancy/shared/front/onlambda/cloudagent"

func main() { cloudagent.Serve() }
