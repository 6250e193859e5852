package dispatch_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"

	"github.com/vacancy-host/vacancy/shared/host/client/discovery"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/filebook"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// A program finds the best vacant for some work at a registry and calls it.
// Signed envelopes are saved in a directory, so that an interrupted program
// gets its answer by repeating the call.
func Example() {
	key, err := identity.NewKey(rand.Reader) // a program keeps its own
	if err != nil {
		log.Fatal(err)
	}
	web := dispatch.NewHTTP(dispatch.HTTPOptions{})
	client := &discovery.Client{
		Caller:     &dispatch.Caller{Signer: key, Book: &filebook.Book{Dir: "calls"}, Transport: web},
		Registries: []*registryclient.Client{{Transport: web, URL: "https://registry.example"}},
	}
	budget := int64(2000) // micro-dollars a call
	out, err := client.CallCapability(context.Background(),
		discovery.Query{Words: "translate french", MaxPrice: &budget},
		envelope.Message{Role: envelope.RoleUser, Parts: []string{"bonjour"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Chosen.ID.Short(), "says", out.Reply.Payload.Text())
}
