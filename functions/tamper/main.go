// Command tamper is the Lambda function that watches the stream of the rows table for changed and
// removed rows, which must never occur.
package main

import "github.com/vacancy-host/vacancy/shared/front/onlambda"

func main() { onlambda.RunTamperWatch() }
