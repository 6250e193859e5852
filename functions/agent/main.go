// Command agent is the Lambda function of A2A and MCP. It serves JSON-RPC and HTTP+JSON, streams,
// agent cards, MCP servers and signed calls.
package main

import "github.com/vacancy-host/vacancy/shared/front/onlambda/cloudagent"

func main() { cloudagent.Serve() }
