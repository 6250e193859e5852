package stacks_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// cachingDisabled is CloudFront's own policy that caches nothing.
const cachingDisabled = "4135ea2d-6df8-44a3-9df3-4b5a84be39ad"

func TestOnlyPublicPagesAreCached(t *testing.T) {
	edge := synth(t, standard).template(t, "edge")
	config := at(edge.Resources["Distribution"].Properties, "DistributionConfig")
	behaviours := append([]any{at(config, "DefaultCacheBehavior")}, at(config, "CacheBehaviors").([]any)...)
	got := map[string]string{}
	for _, b := range behaviours {
		path, _ := at(b, "PathPattern").(string)
		kept := "nothing kept"
		if at(b, "CachePolicyId") != cachingDisabled {
			kept = fmt.Sprint(readable(at(b, "CachePolicyId")))
		}
		got[path] = fmt.Sprintf("%v, %s, %v, %d methods", at(b, "TargetOriginId"), kept, readable(at(b, "OriginRequestPolicyId")), len(at(b, "AllowedMethods").([]any)))
		if at(b, "ViewerProtocolPolicy") != "https-only" {
			t.Errorf("%q is served without TLS", path)
		}
	}
	want := map[string]string{
		"":                  "agent, ${Agents}, ${Tasks}, 7 methods",
		"*/a2a/message/*":   "message, nothing kept, ${Calls}, 7 methods",
		"*/a2a/chain/*":     "message, nothing kept, ${Calls}, 7 methods",
		"/v1/admin/*":       "admin, nothing kept, ${Admin}, 7 methods",
		"/v1/graduations*":  "graduate, nothing kept, ${Reads}, 7 methods",
		"/v1/admin/export*": "export, nothing kept, ${Admin}, 7 methods",
		"/v1/search*":       "search, ${Public}, ${Reads}, 3 methods", "/v1/query_capability": "search, nothing kept, ${Reads}, 7 methods",
		"/web/*":         "web, ${Public}, ${Calls}, 3 methods",
		"/v1/checkpoint": "registry, ${Public}, ${Reads}, 3 methods", "/v1/proof/*": "registry, ${Public}, ${Reads}, 3 methods",
		"/v1/log/*": "registry, ${Public}, ${Reads}, 3 methods",
		"/a2a/v1*":  "gateway, ${Agents}, ${Reads}, 7 methods", "/v1/account*": "gateway, ${Agents}, ${Reads}, 7 methods", "/v1/keys*": "gateway, ${Agents}, ${Reads}, 7 methods",
		"/v/*/reviews/*ingest": "registry, nothing kept, ${Reads}, 7 methods",
		"/v1/workspaces*":      "agent, ${Agents}, ${Files}, 7 methods",
		"/v1/usage":            "gateway, ${Agents}, ${Reads}, 7 methods", "/v1/bookings*": "gateway, ${Agents}, ${Reads}, 7 methods",
		"/v1/tasks*": "agent, ${Agents}, ${Tasks}, 7 methods", "/v1/agents*": "agent, ${Agents}, ${Tasks}, 7 methods",
		"/v1/work/*":               "agent, nothing kept, ${Tasks}, 7 methods",
		"/v/*/v1/chat/completions": "agent, ${Agents}, ${Tasks}, 7 methods", "/v1/chat/*": "agent, ${Agents}, ${Tasks}, 7 methods", "/v1/models*": "agent, ${Agents}, ${Tasks}, 7 methods", "/v1/responses*": "agent, ${Agents}, ${Tasks}, 7 methods",
		"/v/*/v1/responses": "agent, ${Agents}, ${Tasks}, 7 methods", "/v1/v1/*": "agent, ${Agents}, ${Tasks}, 7 methods",
		"/v1/*":           "registry, nothing kept, ${Reads}, 7 methods",
		"*/card":          "message, ${Public}, ${Calls}, 3 methods",
		"*/.well-known/*": "agent, ${Cards}, ${Calls}, 3 methods",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("behaviours (-want +got):\n%s", diff)
	}
	for policy, most := range map[string]float64{"Public": 31536000, "Cards": 60, "Agents": 1} {
		kept := at(edge.Resources[policy].Properties, "CachePolicyConfig")
		if diff := cmp.Diff([]any{0.0, 0.0, most}, []any{at(kept, "MinTTL"), at(kept, "DefaultTTL"), at(kept, "MaxTTL")}); diff != "" {
			t.Errorf("seconds by %s (-want +got):\n%s", policy, diff)
		}
	}
}

// The first matching pattern applies. The pattern of /v1/ comes after all more
// specific ones, and before the pages, none of which is a route of /v1/.
func TestTheRegistryHasWhatIsLeft(t *testing.T) {
	config := at(synth(t, standard).template(t, "edge").Resources["Distribution"].Properties, "DistributionConfig")
	var rest []string
	for _, b := range at(config, "CacheBehaviors").([]any) {
		path := at(b, "PathPattern").(string)
		if len(rest) > 0 || path == "/v1/*" {
			rest = append(rest, path)
		}
	}
	if diff := cmp.Diff([]string{"/v1/*", "*/card", "*/.well-known/*"}, rest); diff != "" {
		t.Errorf("behaviours from /v1/* on (-want +got):\n%s", diff)
	}
}

// A read may be signed, and its answer depends on the signature. If the header
// were forwarded but not part of the cache key, a stranger would get another
// caller's answer. So only public answers are cached.
func TestASignedReadReachesTheRegistryAndNothingElse(t *testing.T) {
	edge := synth(t, standard).template(t, "edge")
	headers := func(policy string) any {
		return at(edge.Resources[policy].Properties, "OriginRequestPolicyConfig", "HeadersConfig", "Headers")
	}
	want := slices.DeleteFunc(headers("Calls").([]any), func(h any) bool { return h == "Vacancy-Max-Price" })
	if diff := cmp.Diff(append(want, "Vacancy-Caller", "Idempotency-Key", "Prefer", "Stripe-Signature"), headers("Reads")); diff != "" {
		t.Errorf("headers (-of calls without the price, who asks, and of accounts +of reads):\n%s", diff)
	}
	for _, path := range []string{"capability_card", "event_log", "event", "lineage"} {
		for _, b := range at(edge.Resources["Distribution"].Properties, "DistributionConfig", "CacheBehaviors").([]any) {
			pattern := strings.TrimSuffix(at(b, "PathPattern").(string), "*")
			if strings.HasPrefix("/v1/"+path+"/0", pattern) && at(b, "CachePolicyId") != cachingDisabled {
				t.Errorf("what /v1/%s/ shows is kept by %v", path, at(b, "PathPattern"))
			}
		}
	}
}

// Parameters that select a page are part of the cache key. Otherwise
// /card?vacant=X, requested by a stranger, would become everybody's /card.
func TestAPageIsKeptUnderAllThatChoosesIt(t *testing.T) {
	edge := synth(t, standard).template(t, "edge")
	for _, kept := range []string{"Public", "Cards", "Agents"} {
		key := at(edge.Resources[kept].Properties, "CachePolicyConfig", "ParametersInCacheKeyAndForwardedToOrigin", "QueryStringsConfig", "QueryStringBehavior")
		for _, policy := range []string{"Calls", "Reads", "Tasks", "Files"} {
			passed := at(edge.Resources[policy].Properties, "OriginRequestPolicyConfig", "QueryStringsConfig", "QueryStringBehavior")
			if key != "all" || passed != "all" {
				t.Errorf("of a query %v is passed on, and %v part of what %s keeps under; want all of both", passed, key, kept)
			}
		}
	}
}

// The first matching pattern applies, and a vacant may be named card or health.
func TestAdminRoutesAreNotShadowed(t *testing.T) {
	config := at(synth(t, standard).template(t, "edge").Resources["Distribution"].Properties, "DistributionConfig")
	page := ""
	// The behaviours of signed calls come first: callers append their paths to any URL, and
	// no route of the operator ends with them.
	all := at(config, "CacheBehaviors").([]any)
	if n := len(all); n > 75 || at(all[0], "PathPattern") != "*/a2a/message/*" || at(all[1], "PathPattern") != "*/a2a/chain/*" {
		t.Fatalf("%d behaviours beside the default, the first for %v and %v", n, at(all[0], "PathPattern"), at(all[1], "PathPattern"))
	}
	for _, b := range all[2:] {
		path := at(b, "PathPattern").(string)
		if strings.HasPrefix(path, "*") {
			page = path
		} else if page != "" {
			t.Errorf("%s comes after %s: the operator cannot reach a vacant named so", path, page)
		}
	}
	if page == "" {
		t.Error("no page has a behaviour")
	}
}

func TestTheEdgePassesNoHostAndNoForgedAddress(t *testing.T) {
	edge := synth(t, standard).template(t, "edge")
	headers := func(policy string) any {
		return at(edge.Resources[policy].Properties, "OriginRequestPolicyConfig", "HeadersConfig")
	}
	calls := at(headers("Calls"), "Headers").([]any)
	if at(headers("Calls"), "HeaderBehavior") != "whitelist" || !slices.Contains(calls, any("CloudFront-Viewer-Address")) || slices.Contains(calls, any("Host")) {
		t.Errorf("calls pass %v, want the address that CloudFront saw, and no Host", headers("Calls"))
	}
	want := map[string]any{"HeaderBehavior": "allExcept", "Headers": []any{"Host", "CloudFront-Viewer-Address"}}
	if diff := cmp.Diff(want, headers("Admin")); diff != "" {
		t.Errorf("the admin API (-want +got):\n%s", diff)
	}
}

// CloudFront passes Authorization of a GET only as part of a cache key. What depends on
// another header is kept under it, too, or not at all.
func TestWhatAgentIsToldIsInAKeyOrPassedOn(t *testing.T) {
	edge := synth(t, standard).template(t, "edge")
	key := func(policy string) any {
		return at(edge.Resources[policy].Properties, "CachePolicyConfig", "ParametersInCacheKeyAndForwardedToOrigin", "HeadersConfig", "Headers")
	}
	card := []any{"A2A-Version", "User-Agent"}
	mcp := []any{"Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "A2A-Extensions", "X-A2A-Extensions"}
	all := slices.Concat([]any{"Authorization", "Accept"}, card, mcp) // Accept tells browsers, which are led to pages
	if diff := cmp.Diff([]any{all, card}, []any{key("Agents"), key("Cards")}); diff != "" {
		t.Errorf("keys of all of A2A, and of cards (-want +got):\n%s", diff)
	}
	passed := at(edge.Resources["Tasks"].Properties, "OriginRequestPolicyConfig", "HeadersConfig", "Headers").([]any)
	want := []any{"Content-Type", "Origin", "CloudFront-Viewer-Address", "Vacancy-Caller", "Last-Event-ID", "Sec-Fetch-Site", "Vacancy-Max-Price", "Idempotency-Key", "X-Stainless-Retry-Count"}
	if diff := cmp.Diff(want, passed); diff != "" {
		t.Errorf("headers of requests to vacants (-want +got):\n%s", diff)
	}
}

func TestTheWebACLLooksIntoNoBody(t *testing.T) {
	acl := synth(t, full).template(t, "edge").Resources["WebACL"].Properties
	var counted []any
	for _, o := range at(acl, "Rules", 1, "Statement", "ManagedRuleGroupStatement", "RuleActionOverrides").([]any) {
		if at(o, "ActionToUse", "Count") == nil {
			t.Errorf("rule %v does not just count", at(o, "Name"))
		}
		counted = append(counted, at(o, "Name"))
	}
	want := []any{"SizeRestrictions_BODY", "CrossSiteScripting_BODY", "GenericLFI_BODY", "GenericRFI_BODY", "EC2MetaDataSSRF_BODY"}
	if diff := cmp.Diff(want, counted); diff != "" {
		t.Errorf("rules that only count (-want +got):\n%s", diff)
	}
	if at(acl, "Rules", 0, "Statement", "RateBasedStatement", "AggregateKeyType") != "IP" || at(acl, "Scope") != "CLOUDFRONT" {
		t.Errorf("web ACL = %v, want a rate by address, for CloudFront", acl)
	}
}

// An AWS account has 20 policies of each kind, for four stages at least. A policy has ten headers at most, of which one is
// left for the next header.
func TestFourStagesHaveRoomForTheirPolicies(t *testing.T) {
	edge := synth(t, full).template(t, "edge")
	for kind, most := range map[string]int{"AWS::CloudFront::CachePolicy": 3, "AWS::CloudFront::OriginRequestPolicy": 5, "AWS::CloudFront::ResponseHeadersPolicy": 4} {
		all := edge.of(kind)
		if len(all) == 0 || len(all) > most {
			t.Errorf("%d of %s, want %d at most", len(all), kind, most)
		}
		for id, p := range all {
			for _, headers := range []any{at(p.Properties, "CachePolicyConfig", "ParametersInCacheKeyAndForwardedToOrigin", "HeadersConfig", "Headers"), at(p.Properties, "OriginRequestPolicyConfig", "HeadersConfig", "Headers")} {
				if list, _ := headers.([]any); len(list) > 9 {
					t.Errorf("%s has %d headers, want 9 at most", id, len(list))
				}
			}
		}
	}
}

// CloudFront allows ten headers in a policy. Protocols add theirs (protocol.All).
func TestThePoliciesOfAgentHaveAtMostTenHeaders(t *testing.T) {
	edge := synth(t, standard).template(t, "edge")
	passed := at(edge.Resources["Tasks"].Properties, "OriginRequestPolicyConfig", "HeadersConfig", "Headers").([]any)
	keys := at(edge.Resources["Agents"].Properties, "CachePolicyConfig", "ParametersInCacheKeyAndForwardedToOrigin", "HeadersConfig", "Headers").([]any)
	if len(passed) > 10 || len(keys) > 10 {
		t.Errorf("the edge passes %d headers, and %d in its cache key: %v, %v", len(passed), len(keys), passed, keys)
	}
}
