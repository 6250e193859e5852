// Command agent is the Lambda function of A2A: JSON-RPC and HTTP+JSON, streams and agent
// cards, and signed calls beside.
package main

import "github.com/vacancy-host/vacancy/shared/front/onlambda/cloudtask"

func main() { cloudtask.Serve() }
