// Command sweeper is the Lambda function that destroys the keys of texts whose
// time is over. A schedule invokes it every hour.
package main

import "github.com/vacancy-host/vacancy/shared/front/onlambda"

func main() { onlambda.Sweep() }
