package awscmd

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/callcmd"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/keys/operator"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// The first deploy creates this vacant, so that there is a vacant to call.
const (
	helloName       = "hello"
	helloCapability = "echoes what it hears"
	helloText       = "hello"
)

type deployResult struct {
	Stage           string              `json:"stage"`
	Region          string              `json:"region"`
	Account         string              `json:"account"`
	URL             string              `json:"url"`
	Edge            bool                `json:"edge"`
	Changes         []stackChange       `json:"changes"`
	Warnings        []doctor.Check      `json:"warnings,omitempty"`
	OperatorKey     *keyResult          `json:"operator_key,omitempty"` // key that this deploy created
	Call            *callcmd.CallResult `json:"call,omitempty"`
	NoCallReason    string              `json:"no_call,omitempty"`
	UnconfirmedMail *mailResult         `json:"unconfirmed_mail,omitempty"`

	callSeq      int64
	nextCommands []string
}

func (r deployResult) Print(w io.Writer) {
	if r.OperatorKey != nil {
		r.OperatorKey.Print(w)
	}
	fmt.Fprintf(w, "stage %s is at %s\n", r.Stage, r.URL)
	if r.UnconfirmedMail != nil {
		fmt.Fprintf(w, "alarms do not reach %s yet: to confirm the subscription, open the link in the mail from AWS\n  %s\n",
			kit.EscapeLine(strings.Join(r.UnconfirmedMail.Addresses, ", ")), kit.EscapeLine(r.UnconfirmedMail.Fix))
	}
	if r.Call == nil {
		fmt.Fprintf(w, "not called: %s\n", r.NoCallReason)
		return
	}
	fmt.Fprintf(w, "called %s: it answered %q\nverified: the signature, the chain, and that the answer belongs to this request (call %d, %.0f ms)\n",
		helloName, kit.EscapeLine(*r.Call.Text), r.callSeq, r.Call.Timing.RequestMS)
	fmt.Fprintf(w, "next:\n  %s\n", strings.Join(r.nextCommands, "\n  "))
}

// mailResult lists the addresses that have not confirmed their subscription to the alarms.
type mailResult struct {
	Addresses []string `json:"addresses"`
	Fix       string   `json:"fix"`
}

func (d *deployment) setUpHost(ctx context.Context, changes []stackChange) error {
	if err := readURLs(d.App, ctx, d.cloud, &d.rec); err != nil {
		return err
	}
	records, err := d.StageRecords()
	if err != nil {
		return err
	}
	email := d.rec.Context["email"]
	d.rec.Context = nil // the stage stores the values now
	if err := records.Write(d.rec); err != nil {
		return err
	}
	r := deployResult{Stage: d.rec.Stage, Region: d.rec.Region, Account: d.rec.Account, URL: d.rec.URL, Edge: d.rec.Edge, Changes: changes, Warnings: d.accountWarnings}
	r.nextCommands = []string{d.FormatCommand("list --host aws --stage %s", r.Stage), d.FormatCommand("tail --stage %s", r.Stage)}
	if r.Changes == nil {
		r.Changes = []stackChange{}
	}
	if r.OperatorKey, err = d.ensureOperatorKey(ctx); err != nil {
		return err
	}
	if r.UnconfirmedMail, err = d.findUnconfirmedMail(ctx, email); err != nil {
		d.PrintNote("Could not check whether the subscription to alarms is confirmed: %s", problem.AsError(err).Text())
	}
	if err := d.callHello(ctx, &r); err != nil {
		// The key is shown only once, so it is printed even if a later step fails.
		if r.OperatorKey != nil && !d.JSON {
			r.OperatorKey.Print(d.Out)
		}
		return err
	}
	return d.PrintResult(r)
}

func (d *deployment) findUnconfirmedMail(ctx context.Context, email string) (*mailResult, error) {
	if email == "" {
		return nil, nil
	}
	s, err := d.cloud.Stack(ctx, stage.FullName(d.rec.Stage, "watch"))
	if err != nil {
		return nil, err
	}
	m := d.cloud.MailSubscriptions(ctx, s.Outputs["AlarmTopic"])
	unconfirmed := m.UnconfirmedAddresses(email)
	if m.Err != nil || len(unconfirmed) == 0 {
		return nil, m.Err
	}
	return &mailResult{unconfirmed, doctor.ConfirmMailCommand(m.Topic, unconfirmed[0])}, nil
}

// readURLs reads the URLs of a stage's handlers. If the stage has an edge, all handlers have the
// edge's URL, because the functions refuse requests that bypass the edge.
func readURLs(a *kit.App, ctx context.Context, c cloud.Cloud, rec *stage.Record) error {
	stack, err := c.Stack(ctx, stage.FullName(rec.Stage, "functions"))
	if problem.Is(err, problem.NotFound) {
		return kit.WithHint(problem.New(problem.NotFound, "stage %s is not deployed in this account and Region", rec.Stage), "vacancy deploy --stage %s", rec.Stage)
	}
	if err != nil {
		return err
	}
	edge, err := c.Stack(ctx, stage.FullName(rec.Stage, "edge"))
	if err != nil && !problem.Is(err, problem.NotFound) {
		return err
	}
	urlOf := func(f functions.Function) string { return strings.TrimRight(stack.Outputs[f.URLOutput()], "/") }
	rec.URL, rec.AdminURL, rec.ExportURL = urlOf(functions.Agent), urlOf(functions.Admin), urlOf(functions.Export)
	rec.RegistryURL, rec.SearchURL = urlOf(functions.Registry), urlOf(functions.Search)
	rec.GraduateURL, rec.GatewayURL = urlOf(functions.Graduate), urlOf(functions.Gateway)
	if rec.Edge = edge.IsDeployed(); rec.Edge {
		url := strings.TrimRight(edge.Outputs["Url"], "/")
		rec.URL, rec.AdminURL, rec.ExportURL, rec.RegistryURL, rec.SearchURL, rec.GraduateURL, rec.GatewayURL = url, url, url, url, url, url, url
	}
	if rec.URL == "" || rec.AdminURL == "" {
		return problem.New(problem.Damaged, "the URL of the host is unknown: the stacks of stage %s have no output AgentUrl or AdminUrl", rec.Stage)
	}
	return nil
}

// ensureOperatorKey creates the operator key if the host never had one. Otherwise it checks that
// this machine has the key.
func (d *deployment) ensureOperatorKey(ctx context.Context) (*keyResult, error) {
	if d.rec.OperatorKey == "" {
		envKey, err := kit.ParseOperatorKey(d.Env["VACANCY_OPERATOR_KEY"])
		if err != nil {
			return nil, err
		}
		// A key from the environment is used only for this run, because the person stores it elsewhere.
		d.rec.OperatorKey = envKey
	}
	keys, err := operatorKeys(d.App, ctx, d.cloud, d.rec.Stage)
	if err != nil {
		return nil, err
	}
	keyDoc, err := keys.Store.Doc(ctx, operator.DocKey())
	if err != nil {
		return nil, d.cloud.ConvertError(err)
	}
	if keyDoc.Version == 0 {
		r, err := createOperatorKey(d.App, ctx, d.cloud, &d.rec)
		if err != nil {
			return nil, err
		}
		return &r, nil
	}
	rotateError := func(format string, args ...any) error {
		return kit.WithHint(problem.New(problem.Unauthorized, format, args...), "vacancy keys rotate-operator --stage %s", d.rec.Stage)
	}
	if d.rec.OperatorKey == "" {
		return nil, rotateError("the stacks are deployed, but the operator key of the host is not stored on this machine")
	}
	err = keys.Check(ctx, string(d.rec.OperatorKey))
	if problem.Is(err, problem.Unauthorized) {
		return nil, rotateError("the stacks are deployed, but the host no longer accepts the operator key on this machine")
	}
	return nil, err
}

// firstAnswerTimeout allows for the propagation of CloudFront's name and the start of new
// functions.
const firstAnswerTimeout = 3 * time.Minute

// callHello sets the host's URL and calls the vacant hello.
func (d *deployment) callHello(ctx context.Context, r *deployResult) error {
	ctx, cancel := context.WithTimeout(ctx, firstAnswerTimeout)
	defer cancel()
	adminClient := &admin.Client{HTTP: d.KeyedClient(d.rec.OperatorKey), URL: d.rec.AdminURL}
	err := retryUnavailable(ctx, func() error {
		_, err := admin.SetHost.Call(ctx, adminClient, op.NewBody(admin.HostURL{URL: d.rec.URL}))
		return err
	})
	if err != nil {
		return problem.Wrap(problem.AsError(err).Kind, err, "the stacks are deployed, but the host did not accept its URL: %s", problem.AsError(err).Text())
	}
	hello, reason, err := d.ensureHello(ctx, adminClient)
	if err != nil || hello == nil {
		r.NoCallReason = reason
		return err
	}
	// The call is an ordinary call with the identity of the person who deploys.
	err = retryUnavailable(ctx, func() error {
		c, err := card.Parse(hello.Card)
		if err != nil {
			return problem.Wrap(problem.Untrusted, err, "the card of %s cannot be read", hello.Name)
		}
		if !c.Verify() {
			return problem.New(problem.Untrusted, "the card of %s does not verify", hello.Name)
		}
		self, err := d.ChooseDemoSigner(ctx)
		if err != nil {
			return err
		}
		target := dispatch.Target{ID: hello.ID, URL: c.Endpoint, Card: &c, Name: hello.Name}
		caller := d.NewDispatcher(self, d.HTTPTransport(0), kit.CallTimeout)
		res, err := caller.Call(ctx, target, envelope.Message{Role: envelope.RoleUser, Parts: []string{helloText}})
		if err != nil {
			return err
		}
		call := callcmd.NewCallResult(self, target, res)
		r.Call, r.callSeq = &call, res.Request.Seq
		return nil
	})
	if err != nil {
		return problem.Wrap(problem.AsError(err).Kind, err, "the stacks are deployed, but the first call failed: %s", problem.AsError(err).Text())
	}
	return nil
}

func retryUnavailable(ctx context.Context, try func() error) error {
	for {
		err := try()
		if !problem.Is(err, problem.Unavailable) && !problem.Is(err, problem.DeadlineExceeded) {
			return err
		}
		if cloud.Sleep(ctx, 3*time.Second) != nil {
			return err
		}
	}
}

// ensureHello returns the vacant hello, or nil and a reason if hello cannot be called. If the host
// has no vacants, ensureHello creates hello. It does not return another vacant, which may cost
// money.
func (d *deployment) ensureHello(ctx context.Context, adminClient *admin.Client) (*admin.Vacant, string, error) {
	v, err := admin.ShowVacant.Call(ctx, adminClient, admin.VacantRef{Vacant: helloName})
	if err == nil {
		if v.State != lifecycle.Local && v.State != lifecycle.Active {
			return nil, fmt.Sprintf("%s is %s", helloName, v.State), nil
		}
		return &v, "", nil
	}
	if !problem.Is(err, problem.NotFound) {
		return nil, "", err
	}
	page, err := admin.ListVacants.Call(ctx, adminClient, admin.ListVacantsRequest{Cursor: "", All: true})
	if err != nil {
		return nil, "", err
	}
	if len(page.Vacants) > 0 {
		return nil, "the host has vacants, but none is named " + helloName, nil
	}
	v, err = admin.CreateVacant.Call(ctx, adminClient, op.NewBody(admin.Creation{Name: helloName, Capability: helloCapability, Substrate: "echo"}))
	return &v, "", err
}
