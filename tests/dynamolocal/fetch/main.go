// Fetch installs DynamoDB Local into the cache and prints its directory, so that
// a test run can download it while its earlier stages run.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/tests/dynamolocal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := fetch(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func fetch(ctx context.Context) error {
	cache, err := cache.Dir(os.Getenv)
	if err != nil {
		return err
	}
	install, err := dynamolocal.Fetch(ctx, cache)
	if err != nil {
		return err
	}
	fmt.Println(install)
	return nil
}
