package echo_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

func TestTheEchoIsTheReferences(t *testing.T) {
	raw, err := os.ReadFile("testdata/chain.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Name   string
			Expect struct {
				Steps []struct {
					Request, Body json.RawMessage
					Status        int
				}
			}
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	s, err := echo.New("")
	if err != nil {
		t.Fatal(err)
	}
	answers := 0
	for _, c := range file.Cases {
		for i, step := range c.Expect.Steps {
			if step.Status != 200 {
				continue
			}
			answers++
			req, err := envelope.DecodeRequest(step.Request)
			if err != nil {
				t.Fatalf("%s, step %d: %v", c.Name, i, err)
			}
			want, err := envelope.DecodeResponse(step.Body)
			if err != nil {
				t.Fatalf("%s, step %d: %v", c.Name, i, err)
			}
			got, err := substrate.Behaviour(s)(context.Background(), nil, req.Envelope)
			if err != nil {
				t.Fatalf("%s, step %d: %v", c.Name, i, err)
			}
			if diff := cmp.Diff(want.Payload, got); diff != "" {
				t.Errorf("%s, step %d (-want +got):\n%s", c.Name, i, diff)
			}
		}
	}
	if answers != 82 {
		t.Errorf("%d answers compared, want the 82 of the vectors", answers)
	}
}

func TestEchoTakesNoArgument(t *testing.T) {
	if _, err := echo.New("loud"); !problem.Is(err, problem.Malformed) {
		t.Errorf("New(loud) = %v, want a refusal", err)
	}
}
