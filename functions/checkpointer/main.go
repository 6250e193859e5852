// Command checkpointer is the Lambda function that seals the transparency log. A
// schedule invokes it every five minutes.
package main

import "github.com/vacancy-host/vacancy/shared/front/onlambda"

func main() { onlambda.Seal() }
