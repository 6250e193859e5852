// Command sweeper is the Lambda function that decides overdue calls, has overdue bookings
// followed and destroys expired text keys. A schedule invokes it every minute.
package main

import "github.com/vacancy-host/vacancy/shared/front/onlambda/cloudsweep"

func main() { cloudsweep.Run() }
