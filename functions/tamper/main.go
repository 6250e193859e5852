// Command tamper is the Lambda function that watches the stream of the table
// of rows for what must not be there: changes and removals.
package main

import "github.com/vacancy-host/vacancy/shared/front/onlambda"

func main() { onlambda.Watch() }
