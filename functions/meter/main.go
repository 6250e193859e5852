// Command meter is the Lambda function that folds the rows of calls into usage. A schedule
// invokes it every minute; it reads the stream of the table of rows itself, because the
// events that Lambda would make of it name no shard.
package main

import "github.com/vacancy-host/vacancy/shared/front/onlambda/cloudmeter"

func main() { cloudmeter.Run() }
