// Command gateway is the Lambda function of accounts and of AGP, the protocol for bookings.
package main

import "github.com/vacancy-host/vacancy/shared/front/onlambda/cloudgateway"

func main() { cloudgateway.Serve() }
