package awsapi

import (
	"testing"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// net/http reads the environment once a process, so no test sets it.
func TestNoProxyIsUsed(t *testing.T) {
	client := HTTPClient().(limitedClient).HTTPClient.(*awshttp.BuildableClient)
	if client.GetTransport().Proxy != nil {
		t.Error("the client uses a proxy, want none")
	}
}
