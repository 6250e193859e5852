// Command agent is the Lambda function of A2A and MCP: JSON-RPC and HTTP+JSON, streams, agent cards
// and MCP servers, and signed calls beside.
package main

import "github.com/vacancy-host/vacancy/shared/front/onlambda/cloudagent"

func main() { cloudagent.Serve() }
