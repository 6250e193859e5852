package stacks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscertificatemanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudfront"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudfrontorigins"
	"github.com/aws/aws-cdk-go/awscdk/v2/awswafv2"
	"github.com/aws/constructs-go/constructs/v10"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/openai/openaiwire"
	"github.com/vacancy-host/vacancy/shared/front/protocol"
	"github.com/vacancy-host/vacancy/shared/host/billing/paykeys"
)

const EdgeSecretHeader = "X-Vacancy-Edge"

func newEdgeStack(app constructs.Construct, in Input, f functionStack) awscdk.Stack {
	s := newStack(app, in, "edge", "Vacancy "+in.Settings.Stage+": CloudFront in front of the functions")
	e := edgeBuilder{
		stack: s, in: in, functionStack: f, responseHeaders: newSecurityHeaders(s, in), origins: map[functions.Function]awscloudfront.IOrigin{},
		headerPolicies: map[string]awscloudfront.OriginRequestPolicy{
			"calls": newCallHeaderPolicy(s, in), "admin": newAdminHeaderPolicy(s, in), "reads": newRegistryHeaderPolicy(s, in), "tasks": newAgentHeaderPolicy(s, in),
			"files": newHeaderPolicy(s, in, "files", "headers of requests for files", "Content-Type", "Origin", "CloudFront-Viewer-Address", "Sec-Fetch-Site", "If-Match", "If-None-Match"),
		},
		cachePolicies: map[string]awscloudfront.ICachePolicy{
			functions.CachePerKey: newAgentCachePolicy(s, in), functions.CachePublic: newPublicCachePolicy(s, in), "cards": newCardCachePolicy(s, in),
		},
	}
	props := &awscloudfront.DistributionProps{
		Comment:                str("Vacancy " + in.Settings.Stage),
		DefaultBehavior:        e.buildBehavior(functions.DefaultPath),
		ErrorResponses:         errorResponses(),
		MinimumProtocolVersion: awscloudfront.SecurityPolicyProtocol_TLS_V1_2_2021,
		HttpVersion:            awscloudfront.HttpVersion_HTTP2_AND_3,
	}
	if in.Settings.Domain != "" {
		props.DomainNames = strs(in.Settings.Domain)
		props.Certificate = awscertificatemanager.Certificate_FromCertificateArn(s, str("Certificate"), str(in.Settings.Certificate))
	}
	if in.Settings.WAF {
		props.WebAclId = newWebACL(s, in).AttrArn()
	}
	d := awscloudfront.NewDistribution(s, str("Distribution"), props)
	setLogicalID(d, "Distribution")
	for _, p := range functions.Paths() {
		e.addBehavior(d, p.Pattern, e.buildBehavior(p))
	}
	e.suppressRules(d)
	if in.Settings.Domain != "" {
		addOutput(s, "Url", str("https://"+in.Settings.Domain), "public URL of the host")
	} else {
		addOutput(s, "Url", awscdk.Fn_Join(str(""), &[]*string{str("https://"), d.DistributionDomainName()}), "public URL of the host")
	}
	return s
}

type edgeBuilder struct {
	stack           awscdk.Stack
	in              Input
	functionStack   functionStack
	headerPolicies  map[string]awscloudfront.OriginRequestPolicy
	cachePolicies   map[string]awscloudfront.ICachePolicy
	responseHeaders awscloudfront.ResponseHeadersPolicy
	origins         map[functions.Function]awscloudfront.IOrigin
}

func (e edgeBuilder) originOf(f functions.Function) awscloudfront.IOrigin {
	if e.origins[f] == nil {
		e.origins[f] = awscloudfrontorigins.NewFunctionUrlOrigin(e.functionStack.functionURLs[f], &awscloudfrontorigins.FunctionUrlOriginProps{
			OriginId:      str(f.Name),
			CustomHeaders: &map[string]*string{EdgeSecretHeader: secretReference(e.functionStack.edgeSecret, e.in.Settings.EdgeSecretVersion)},
			ReadTimeout:   awscdk.Duration_Seconds(num(30)),
		})
	}
	return e.origins[f]
}

func (e edgeBuilder) buildBehavior(p functions.Path) *awscloudfront.BehaviorOptions {
	b := &awscloudfront.BehaviorOptions{
		Origin:                e.originOf(p.Function),
		AllowedMethods:        awscloudfront.AllowedMethods_ALLOW_ALL(),
		ViewerProtocolPolicy:  awscloudfront.ViewerProtocolPolicy_HTTPS_ONLY,
		CachePolicy:           awscloudfront.CachePolicy_CACHING_DISABLED(),
		OriginRequestPolicy:   e.headerPolicies[p.HeaderPolicy],
		ResponseHeadersPolicy: e.responseHeaders,
	}
	if p.CachePolicy != "" {
		b.CachePolicy = e.cachePolicies[p.CachePolicy]
	}
	if p.CachePolicy != "" && p.CachePolicy != functions.CachePerKey {
		b.AllowedMethods = awscloudfront.AllowedMethods_ALLOW_GET_HEAD_OPTIONS()
	}
	if b.OriginRequestPolicy == nil || b.CachePolicy == nil {
		panic(fmt.Sprintf("path %s has the policies %q and %q, of which one is unknown", p.Pattern, p.HeaderPolicy, p.CachePolicy))
	}
	return b
}

func (e edgeBuilder) addBehavior(d awscloudfront.Distribution, path string, b *awscloudfront.BehaviorOptions) {
	// The distribution tries its behaviours in the order in which they were added.
	d.AddBehavior(str(path), b.Origin, &awscloudfront.AddBehaviorOptions{
		AllowedMethods: b.AllowedMethods, CachePolicy: b.CachePolicy, OriginRequestPolicy: b.OriginRequestPolicy,
		ViewerProtocolPolicy: b.ViewerProtocolPolicy, ResponseHeadersPolicy: b.ResponseHeadersPolicy,
	})
}

// An AWS account is limited to 20 cache policies and 20 origin request policies, and a policy to
// ten headers. Four stages fit.

// newAgentCachePolicy includes Authorization in the cache key, because CloudFront otherwise does
// not forward the header. No cached answer depends on the protocols' CacheKeyHeaders. They are in
// the key only because CloudFront forwards all headers of the key, and newAgentHeaderPolicy has no
// room for all of them.
func newAgentCachePolicy(s awscdk.Stack, in Input) awscloudfront.ICachePolicy {
	return newCachePolicy(s, in, functions.CachePerKey, "A2A: agent cards at a vacant's own URL, for a second", 1,
		slices.Concat([]string{"Authorization", "Accept"}, protocolHeaders(varyHeaders), protocolHeaders(func(p *protocol.Protocol) []string { return p.CacheKeyHeaders }))...)
}

func newCardCachePolicy(s awscdk.Stack, in Input) awscloudfront.ICachePolicy {
	return newCachePolicy(s, in, "cards", "agent cards, as long as Cache-Control allows", 60, protocolHeaders(varyHeaders)...)
}

func protocolHeaders(headersOf func(*protocol.Protocol) []string) (values []string) {
	for _, p := range protocol.All {
		values = append(values, headersOf(p)...)
	}
	return values
}

func varyHeaders(p *protocol.Protocol) []string { return p.CardVaryHeaders }

// newPublicCachePolicy caches answers for at most a year, because the files of the pages have their
// hash in the path and never change.
func newPublicCachePolicy(s awscdk.Stack, in Input) awscloudfront.ICachePolicy {
	return newCachePolicy(s, in, functions.CachePublic, "public answers, as long as Cache-Control allows", 365*86400)
}

func newCachePolicy(s awscdk.Stack, in Input, name, comment string, maxTTL int, headers ...string) awscloudfront.ICachePolicy {
	headerBehavior := awscloudfront.CacheHeaderBehavior_None()
	if len(headers) > 0 {
		headerBehavior = awscloudfront.CacheHeaderBehavior_AllowList(*strs(headers...)...)
	}
	p := awscloudfront.NewCachePolicy(s, str(logicalID(name)), &awscloudfront.CachePolicyProps{
		CachePolicyName: str(in.Settings.ResourceName(name)), Comment: str(comment),
		MinTtl: awscdk.Duration_Seconds(num(0)), DefaultTtl: awscdk.Duration_Seconds(num(0)), MaxTtl: awscdk.Duration_Seconds(num(maxTTL)),
		CookieBehavior: awscloudfront.CacheCookieBehavior_None(), HeaderBehavior: headerBehavior,
		QueryStringBehavior:      awscloudfront.CacheQueryStringBehavior_All(),
		EnableAcceptEncodingGzip: yes(), EnableAcceptEncodingBrotli: yes(),
	})
	setLogicalID(p, logicalID(name))
	return p
}

// newCallHeaderPolicy lists single headers. A policy with all headers would also forward the
// caller's Host, which a Function URL refuses.
func newCallHeaderPolicy(s awscdk.Stack, in Input) awscloudfront.OriginRequestPolicy {
	return newHeaderPolicy(s, in, "calls", "headers of signed calls", "Accept", "Content-Type", "Origin", "CloudFront-Viewer-Address", caller.MaxPriceHeader)
}

func newRegistryHeaderPolicy(s awscdk.Stack, in Input) awscloudfront.OriginRequestPolicy {
	return newHeaderPolicy(s, in, "reads", "headers of requests to the registry, to accounts and of AGP", "Accept", "Content-Type", "Origin", "CloudFront-Viewer-Address", "Vacancy-Caller",
		openaiwire.IdempotencyHeader, "Prefer", paykeys.SignatureHeader)
}

func newAgentHeaderPolicy(s awscdk.Stack, in Input) awscloudfront.OriginRequestPolicy {
	return newHeaderPolicy(s, in, "tasks", "headers of requests to vacants", append([]string{"Content-Type", "Origin", "CloudFront-Viewer-Address", "Vacancy-Caller",
		"Last-Event-ID", "Sec-Fetch-Site", caller.MaxPriceHeader}, protocolHeaders(func(p *protocol.Protocol) []string { return p.ForwardedHeaders })...)...)
}

func newHeaderPolicy(s awscdk.Stack, in Input, name, comment string, headers ...string) awscloudfront.OriginRequestPolicy {
	p := awscloudfront.NewOriginRequestPolicy(s, str(logicalID(name)), &awscloudfront.OriginRequestPolicyProps{
		OriginRequestPolicyName: str(in.Settings.ResourceName(name)), Comment: str(comment),
		HeaderBehavior:      awscloudfront.OriginRequestHeaderBehavior_AllowList(*strs(headers...)...),
		QueryStringBehavior: awscloudfront.OriginRequestQueryStringBehavior_All(),
		CookieBehavior:      awscloudfront.OriginRequestCookieBehavior_None(),
	})
	setLogicalID(p, logicalID(name))
	return p
}

// newAdminHeaderPolicy forwards all headers except two, because a list of single headers cannot
// include Authorization. A Function URL refuses the caller's Host, and the caller could forge
// CloudFront-Viewer-Address.
func newAdminHeaderPolicy(s awscdk.Stack, in Input) awscloudfront.OriginRequestPolicy {
	p := awscloudfront.NewOriginRequestPolicy(s, str("Admin"), &awscloudfront.OriginRequestPolicyProps{
		OriginRequestPolicyName: str(in.Settings.ResourceName("admin")), Comment: str("headers of admin requests"),
		HeaderBehavior:      awscloudfront.OriginRequestHeaderBehavior_DenyList(str("Host"), str("CloudFront-Viewer-Address")),
		QueryStringBehavior: awscloudfront.OriginRequestQueryStringBehavior_All(),
		CookieBehavior:      awscloudfront.OriginRequestCookieBehavior_None(),
	})
	setLogicalID(p, "Admin")
	return p
}

func newSecurityHeaders(s awscdk.Stack, in Input) awscloudfront.ResponseHeadersPolicy {
	p := awscloudfront.NewResponseHeadersPolicy(s, str("Headers"), &awscloudfront.ResponseHeadersPolicyProps{
		ResponseHeadersPolicyName: str(in.Settings.ResourceName("headers")),
		SecurityHeadersBehavior: &awscloudfront.ResponseSecurityHeadersBehavior{
			ContentTypeOptions: &awscloudfront.ResponseHeadersContentTypeOptions{Override: yes()},
			FrameOptions:       &awscloudfront.ResponseHeadersFrameOptions{FrameOption: awscloudfront.HeadersFrameOption_DENY, Override: yes()},
			ReferrerPolicy: &awscloudfront.ResponseHeadersReferrerPolicy{
				ReferrerPolicy: awscloudfront.HeadersReferrerPolicy_NO_REFERRER, Override: yes()},
			StrictTransportSecurity: &awscloudfront.ResponseHeadersStrictTransportSecurity{
				AccessControlMaxAge: awscdk.Duration_Days(num(365)), Override: yes()},
		},
	})
	setLogicalID(p, "Headers")
	return p
}

func errorResponses() *[]*awscloudfront.ErrorResponse {
	// By default CloudFront caches an error for ten seconds, so a new host or vacant would seem
	// absent.
	var responses []*awscloudfront.ErrorResponse
	for _, status := range []int{400, 403, 404, 405, 414, 416, 500, 501, 502, 503, 504} {
		responses = append(responses, &awscloudfront.ErrorResponse{HttpStatus: num(status), Ttl: awscdk.Duration_Seconds(num(1))})
	}
	return &responses
}

// newWebACL sets the rules that inspect bodies to count only. The rules would block valid calls:
// bodies above 8 KiB, and prose with HTML tags or file paths, which is harmless, because handlers
// never execute texts.
func newWebACL(s awscdk.Stack, in Input) awswafv2.CfnWebACL {
	visibility := func(name string) *awswafv2.CfnWebACL_VisibilityConfigProperty {
		return &awswafv2.CfnWebACL_VisibilityConfigProperty{
			CloudWatchMetricsEnabled: true, SampledRequestsEnabled: false, MetricName: str(in.Settings.ResourceName(name))}
	}
	var countOnlyRules []any
	for _, rule := range []string{"SizeRestrictions_BODY", "CrossSiteScripting_BODY", "GenericLFI_BODY", "GenericRFI_BODY", "EC2MetaDataSSRF_BODY"} {
		countOnlyRules = append(countOnlyRules, &awswafv2.CfnWebACL_RuleActionOverrideProperty{
			Name: str(rule), ActionToUse: &awswafv2.CfnWebACL_RuleActionProperty{Count: map[string]any{}}})
	}
	acl := awswafv2.NewCfnWebACL(s, str("WebACL"), &awswafv2.CfnWebACLProps{
		Name: str(in.Settings.ResourceName("edge")), Scope: str("CLOUDFRONT"), VisibilityConfig: visibility("edge"),
		DefaultAction: &awswafv2.CfnWebACL_DefaultActionProperty{Allow: map[string]any{}},
		Rules: []any{&awswafv2.CfnWebACL_RuleProperty{
			Name: str("rate"), Priority: num(0), VisibilityConfig: visibility("rate"),
			Action: &awswafv2.CfnWebACL_RuleActionProperty{Block: map[string]any{"CustomResponse": map[string]any{"ResponseCode": 429}}},
			Statement: &awswafv2.CfnWebACL_StatementProperty{RateBasedStatement: &awswafv2.CfnWebACL_RateBasedStatementProperty{
				AggregateKeyType: str("IP"), Limit: num(6000), EvaluationWindowSec: num(300)}},
		}, &awswafv2.CfnWebACL_RuleProperty{
			Name: str("common"), Priority: num(1), VisibilityConfig: visibility("common"),
			OverrideAction: &awswafv2.CfnWebACL_OverrideActionProperty{None: map[string]any{}},
			Statement: &awswafv2.CfnWebACL_StatementProperty{ManagedRuleGroupStatement: &awswafv2.CfnWebACL_ManagedRuleGroupStatementProperty{
				VendorName: str("AWS"), Name: str("AWSManagedRulesCommonRuleSet"), RuleActionOverrides: countOnlyRules}},
		}},
	})
	acl.OverrideLogicalId(str("WebACL"))
	return acl
}

func (e edgeBuilder) suppressRules(d awscloudfront.Distribution) {
	suppressRule(d, "AwsSolutions-CFR1", "Vacants are public services: they are called from anywhere.")
	suppressRule(d, "AwsSolutions-CFR3", "Each call is one line in the function's log, with its status and time; a second log of the same calls would keep callers' addresses and cost as much again.")
	if !e.in.Settings.WAF {
		suppressRule(d, "AwsSolutions-CFR2", "The functions keep a token bucket for each address, before any signature is checked. A web ACL costs a fixed sum a month, and is an option: waf=true.")
	}
	if e.in.Settings.Domain == "" {
		suppressRule(d, "AwsSolutions-CFR4", "CloudFront's own name comes with CloudFront's own certificate, whose oldest protocol cannot be chosen. With a domain it is TLS 1.2.")
	}
}

func camelCase(name string) (out string) {
	for word := range strings.SplitSeq(name, "-") {
		out += logicalID(word)
	}
	return out
}
