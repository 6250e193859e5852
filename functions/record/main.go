// Command record is the Lambda function that writes down how an attempt at the
// gate ended that did not pass: refused, or failed.
package main

import "github.com/vacancy-host/vacancy/shared/front/onlambda"

func main() { onlambda.Recorder() }
