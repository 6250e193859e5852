// Command search is the Lambda function of searches.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/cloudindex"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

func main() { onlambda.Serve(functions.Search, cloudindex.Handler) }
