// Command checkpointer is the Lambda function that seals the transparency log and creates the keys
// that sign receipts.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

func main() { onlambda.RunJobs(functions.Checkpointer, nil) }
