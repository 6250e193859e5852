// Command record is the Lambda function that records failed and refused attempts at the gate.
package main

import "github.com/vacancy-host/vacancy/shared/front/onlambda"

func main() { onlambda.Recorder() }
