package agent_test

import (
	"context"
	"log"
	"strings"

	"github.com/vacancy-host/vacancy/shared/agent"
)

// A vacant that lasts, with a registry, search and limits.
func ExampleServe() {
	err := agent.Serve(context.Background(), agent.Agent{
		Name: "crier", Capability: "repeats in capital letters",
		Answer: func(_ context.Context, c agent.Call) (string, error) { return strings.ToUpper(c.Text), nil },
	}, agent.Options{Data: "./crier"})
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleDial() {
	ctx := context.Background()
	c, err := agent.Dial(ctx, "./me", "http://127.0.0.1:8080/v/crier")
	if err != nil {
		log.Fatal(err)
	}
	answer, err := c.Call(ctx, "hello")
	if err != nil {
		log.Fatal(err)
	}
	log.Print(answer)
}
