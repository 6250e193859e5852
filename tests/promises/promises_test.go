// Package promises maps each promise to users to the tests that prove it.
package promises

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// agp are the promises of AGP, by their numbers, and the test of each, or why there is
// none.
var agp = map[int]struct{ promise, dir, test string }{
	1:  {"mounted at /a2a/v1, a key required", "shared/front/agp", "TestAKeyIsNeededAndARevokedOneFails"},
	2:  {"one envelope shape, from aliased", "shared/front/agp", "TestOneEnvelopeWithDefaultsAndAnAlias"},
	3:  {"defaults for every other field", "shared/front/agp", "TestOneEnvelopeWithDefaultsAndAnAlias"},
	4:  {"field types", "shared/front/agp", "TestOneEnvelopeWithDefaultsAndAnAlias"},
	5:  {"protocol is a version discriminator", "shared/front/agp", "TestUnknownProtocolsIntentsDestinationsAndSenders"},
	6:  {"exactly four intents", "shared/front/agp", "TestUnknownProtocolsIntentsDestinationsAndSenders"},
	7:  {"ping: connected, venues, tier, agent_id, version", "shared/front/agp", "TestPingTellsTheNumberOfVenues"},
	8:  {"venues is the number of active venues", "shared/front/agp", "TestPingTellsTheNumberOfVenues"},
	9:  {"full-text search with an optional location", "shared/front/agp", "TestSearchFindsByTextAndPlaceAndIsRemembered"},
	10: {"venue object and top-level members", "shared/front/agp", "TestSearchFindsByTextAndPlaceAndIsRemembered"},
	11: {"remembered for five minutes", "shared/front/agp", "TestSearchFindsByTextAndPlaceAndIsRemembered"},
	12: {"limit honoured", "shared/front/agp", "TestSearchAndListAreLimitedAndFree"},
	13: {"venue.list by category and location, up to 100", "shared/front/agp", "TestSearchAndListAreLimitedAndFree"},
	14: {"confirm only for pro and enterprise", "shared/front/agp", "TestOnlyProAndEnterpriseBook"},
	15: {"confirm creates a booking row", "shared/front/agp", "TestABookingAndItsEventAreThere"},
	16: {"and a metered event of $0.25", "shared/front/agp", "TestABookingAndItsEventAreThere"},
	17: {"both or neither", "shared/front/agp", "TestBothOrNeitherWithFaults"},
	18: {"search, list and ping free", "shared/front/agp", "TestSearchAndListAreLimitedAndFree"},
	19: {"agent_context echoed", "shared/front/agp", "TestTheContextIsEchoedAndTheAnswerWrapped"},
	20: {"ttl_ms a hint", "shared/front/agp", "TestTheTTLIsAHint"},
	21: {"timestamp optional", "shared/front/agp", "TestOneEnvelopeWithDefaultsAndAnAlias"},
	22: {"to: default and routing", "shared/front/agp", "TestADestinationIsTheVenue"},
	23: {"eight states, eight legal pairs", "shared/host/booking", "TestEachStepMovesStateMoneyAndSlot"},
	24: {"an illegal one changes nothing", "shared/front/agp", "TestAnIllegalStepIsRefused"},
	25: {"four terminal states", "shared/host/booking", "TestEachStepMovesStateMoneyAndSlot"},
	26: {"dispatch_failed may retry", "shared/front/agp", "TestAFailedDispatchIsTriedAgain"},
	27: {"last use recorded", "shared/front/agp", "TestLastUseIsShown"},
	28: {"a2a_requests_total", "shared/front/agp", "TestRequestsAreCountedByIntentTierAndStatus"},
	29: {"a2a_metered_events_total, drift visible", "shared/front/agp", "TestBothOrNeitherWithFaults"},
	30: {"public status", "shared/front/agp", "TestStatusIsPublic"},
	31: {"key form, shown once, hash stored", "shared/front/agp", "TestKeysOfTiers"},
	32: {"daily quota by tier", "shared/front/agp", "TestAQuotaOfTheDayAndOfTheSecond"},
	33: {"idempotent repeats", "shared/front/agp", "TestARepeatedConfirmIsOneBooking"},
	34: {"the same four over MCP", "shared/front/mcpserver", "TestAGPOverMCP"},
	35: {"breaker by venue", "shared/front/agp", "TestTheBreakerStopsDispatchesToOneVenue"},
	36: {"works for real vacants", "shared/front/agp", "TestAJobForAVacant"},
}

func TestEveryPromiseOfAGPHasItsTest(t *testing.T) {
	const last = 36
	for n := 1; n <= last; n++ {
		p, ok := agp[n]
		switch {
		case !ok || p.promise == "" || p.test == "":
			t.Errorf("promise %d has no test, and no reason", n)
		case p.dir != "" && !has(t, p.dir, p.test):
			t.Errorf("promise %d (%s): %s has no %s", n, p.promise, p.dir, p.test)
		}
	}
	if len(agp) != last {
		t.Errorf("%d promises, want %d", len(agp), last)
	}
}

// has reports whether a package has a test of a name.
func has(t *testing.T, dir, name string) bool {
	t.Helper()
	at := filepath.Join("..", "..", dir)
	entries, err := os.ReadDir(at)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(at, e.Name()), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == name {
				return true
			}
		}
	}
	return false
}
