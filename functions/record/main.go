// Command record is the Lambda function that records failed and refused attempts of child vacants to
// become public.
package main

import "github.com/vacancy-host/vacancy/shared/front/onlambda"

func main() { onlambda.RunRecorder() }
