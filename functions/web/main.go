// Command web is the Lambda function of the pages for browsers.
package main

import "github.com/vacancy-host/vacancy/shared/front/onlambda/cloudweb"

func main() { cloudweb.Serve() }
