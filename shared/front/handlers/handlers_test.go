package handlers_test

import (
	"slices"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/handlers"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/protocol"
)

func TestEveryProtocolHasItsCode(t *testing.T) {
	var all []*protocol.Protocol
	for _, row := range handlers.ProtocolHandlers() {
		all = append(all, row.Protocol)
		if row.New == nil || row.Operations == nil || row.Name == "" || row.Refuse == nil || row.MaxBody == 0 || row.LogMessage == "" {
			t.Errorf("the row of %q lacks a member: %+v", row.LogMessage, row)
		}
	}
	if !slices.Equal(all, protocol.All) {
		t.Errorf("the rows are of %d protocols, and not of the %d in their order", len(all), len(protocol.All))
	}
}

// CloudFront allows 75 patterns.
func TestTheEdgeHasRoomForTheProtocols(t *testing.T) {
	if n := len(functions.Paths()); n > 75 {
		t.Errorf("the edge has %d patterns, want at most 75", n)
	}
	for _, p := range protocol.All {
		for _, pattern := range p.EdgePatterns {
			if to := functions.Route(pattern).Function; to.Name != functions.Agent.Name {
				t.Errorf("%s of %s leads to %s", pattern, p.LogMessage, to.Name)
			}
		}
	}
}
