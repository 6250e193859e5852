// Command sweeper is the Lambda function that destroys expired text keys. A
// schedule invokes it every hour.
package main

import "github.com/vacancy-host/vacancy/shared/front/onlambda"

func main() { onlambda.Sweep() }
