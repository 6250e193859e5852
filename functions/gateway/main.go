// Command gateway is the Lambda function of accounts and of AGP, the protocol for bookings. It serves
// payments, keys, links, usage and receipts, and signed requests that find and book venues.
package main

import "github.com/vacancy-host/vacancy/shared/front/onlambda/cloudgateway"

func main() { cloudgateway.Serve() }
