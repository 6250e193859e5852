// Command worker is the Lambda function of the queues. It runs turns in the background, and pushes
// the events of tasks to their callers' URLs.
package main

import "github.com/vacancy-host/vacancy/shared/front/onlambda/cloudtask"

func main() { cloudtask.RunWorker() }
