// Command laptop is the laptop home: localstack/up, down, deploy and status run
// it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/vacancy-host/vacancy/localstack/server"
	"github.com/vacancy-host/vacancy/tests/dynamolocal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cache, err := dynamolocal.CacheDir()
	if err != nil {
		panic(err)
	}
	t := time.Now()
	in, err := server.Install(ctx, cache, os.Stderr)
	if err != nil {
		panic(err)
	}
	fmt.Println("installed", time.Since(t))
	t = time.Now()
	s, err := in.Start(ctx, server.Options{})
	if err != nil {
		panic(err)
	}
	fmt.Println("up", s.URL, time.Since(t))
	<-ctx.Done()
	t = time.Now()
	fmt.Println(s.Stop(), time.Since(t))
}
