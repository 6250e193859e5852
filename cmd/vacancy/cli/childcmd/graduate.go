package childcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/retry"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
)

type graduateFlags struct {
	where      kit.HostFlags
	capability string
	endpoint   string
	explain    bool
	wait       time.Duration

	// Flags for parties who sign on different machines.
	printOnly                 bool
	registryURL, manifestFile string
	partialFile               string // request that the other party has signed
}

func graduateCommand(a *kit.App) *cobra.Command {
	var f graduateFlags
	cmd := &cobra.Command{
		Use:   "graduate CHILD",
		Short: "Make a closed child public, through the gate",
		Long: `Ask the gate to make a closed child public. Parent and child both sign the request. A host signs for
the vacants that it hosts, and this machine signs for your identities. The gate then checks in this
order: both parties consent, the parent has a graduation left within 24 hours, and the child is not its
parent or a sibling under another name. If all checks pass, the gate changes the manifest, the card,
the registration and both logbooks at once. The child keeps its key, id and history.

If an attempt is open, the same request joins this attempt. After a refusal, the same request starts a
new attempt. --explain shows everything that was compared. Without --capability, --explain shows the
evidence of the last attempt and sends no request.

A child that is one of your identities and runs on another host signs its own documents. --endpoint is
its address. Ctrl-C stops the display, but not the attempt.

If two people hold the keys, sign in two steps. --print signs with your identity and prints the request.
The other person sends the request with --with FILE.`,
		Example: `  vacancy graduate reviewer --capability "reviews contracts"
  vacancy graduate reviewer --capability "reviews contracts" --explain
  vacancy graduate reviewer --explain
  vacancy graduate reviewer --capability "reviews contracts" --host aws --wait 0
  vacancy graduate alice --capability "sings" --print --registry https://vacancy.example > half.json
  vacancy graduate alice --with half.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.printOnly && f.explain:
				return problem.New(problem.Usage, "--explain and --print: not supported together, because --print sends no request to the gate")
			case !f.printOnly && (f.manifestFile != "" || f.registryURL != ""):
				flag := "--manifest"
				if f.manifestFile == "" {
					flag = "--registry"
				}
				return kit.WithHint(problem.New(problem.Usage, "%s: not supported without --print", flag), `vacancy graduate %s --capability "TEXT" --print`, args[0])
			}
			if f.printOnly {
				return printPartial(a, cmd.Context(), f, args[0])
			}
			if f.capability == "" && !f.explain && f.partialFile == "" {
				return kit.WithHint(problem.New(problem.Usage, "--capability: expected a description of what %s can do, for its public card, got none", args[0]), `vacancy graduate %s --capability "TEXT"`, args[0])
			}
			return a.WithAdmin(f.where, false, func(c *kit.AdminAPI) error {
				return graduate(a, cmd.Context(), c, f, args[0])
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.capability, "capability", "", "what the child can do, for its public card")
	fs.BoolVar(&f.explain, "explain", false, "show the evidence and how it was judged")
	// The default exceeds the maximum duration of an attempt.
	fs.DurationVar(&f.wait, "wait", 2*time.Minute+10*time.Second, "how long to follow the attempt; 0 only starts the attempt")
	fs.StringVar(&f.endpoint, "endpoint", "", "the address of a child that runs on another host (default: the endpoint in its card)")
	fs.BoolVar(&f.printOnly, "print", false, "sign as one of your identities, and print the request instead of sending it")
	fs.StringVar(&f.registryURL, "registry", "", "with --print: the `URL` of the host whose gate decides")
	fs.StringVar(&f.manifestFile, "manifest", "", "with --print: a `FILE` with the manifest (default: the manifest that the identity has stored)")
	fs.StringVar(&f.partialFile, "with", "", "a `FILE` with the request that the other party printed")
	kit.AddHostFlags(fs, &f.where)
	return cmd
}

func graduate(a *kit.App, ctx context.Context, c *kit.AdminAPI, f graduateFlags, name string) error {
	partial, err := readPartial(f.partialFile)
	if err != nil {
		return err
	}
	child, err := findParty(a, ctx, c, name, partial)
	if err != nil {
		return err
	}
	if f.capability == "" && partial == nil {
		view, err := admin.GetGraduation.Call(ctx, c, admin.AttemptRef{VacantRef: admin.VacantRef{Vacant: child.id.String()}})
		if err != nil {
			return err
		}
		return a.PrintResult(graduateResult{View: view, child: name, withEvidence: true})
	}
	sub, err := buildSubmission(a, ctx, c, f, child, partial)
	if err != nil {
		return err
	}
	body, err := sub.Blob()
	if err != nil {
		return err
	}
	// A local host gets the request through its admin API, which works even if the host is not
	// running. A remote host gets the request at its public gate.
	var view graduation.View
	if c.Remote == nil {
		err = c.Call(ctx, http.MethodPost, admin.GraduationsPath, nil, body, &view)
	} else {
		record := c.Remote.Record
		url, urlErr := c.Remote.RequireURL(cmp.Or(record.GraduateURL, record.RegistryURL, record.URL))
		if urlErr != nil {
			return urlErr
		}
		base, urlErr := registryclient.NormalizeURL(url)
		if urlErr != nil {
			return urlErr
		}
		registry := &registryclient.Client{Transport: a.HTTPTransport(0), URL: base, Now: a.Now}
		err = registry.Post(ctx, admin.GraduationsPath, json.RawMessage(body), &view)
	}
	if err != nil {
		return err
	}
	if view, err = followAttempt(a, ctx, c, view, f.wait); err != nil {
		return err
	}
	if err := a.PrintResult(graduateResult{View: view, child: name, withEvidence: f.explain}); err != nil {
		return err
	}
	return refusalError(&view, name)
}

// followAttempt polls an attempt until it is decided or wait has elapsed, and prints each new step.
func followAttempt(a *kit.App, ctx context.Context, c *kit.AdminAPI, view graduation.View, wait time.Duration) (graduation.View, error) {
	var lastStep gate.StepName
	for deadline := a.Now().Add(wait); ; {
		// Only the admin API returns the evidence.
		next, err := admin.GetGraduation.Call(ctx, c, admin.AttemptRef{VacantRef: admin.VacantRef{Vacant: view.Child.String()}, Position: view.Position})
		if err != nil {
			return view, err
		}
		view = next
		if view.Phase != graduation.Open || !a.Now().Before(deadline) {
			return view, nil
		}
		if view.Step != lastStep && view.Step != "" {
			a.PrintNote("%s ...", view.Step)
			lastStep = view.Step
		}
		if err := retry.Sleep(ctx, time.Second); err != nil {
			return view, problem.Wrap(problem.Canceled, err, "graduation %s continues on the host", view.ID)
		}
	}
}

// buildSubmission collects the signatures of parent and child. partial is the request that the
// other party has signed, or nil.
func buildSubmission(a *kit.App, ctx context.Context, c *kit.AdminAPI, f graduateFlags, child party, partial *graduation.Submission) (graduation.Submission, error) {
	var sub graduation.Submission
	stored, err := admin.GetManifest.Call(ctx, c, admin.VacantRef{Vacant: child.id.String()})
	if err != nil {
		return sub, err
	}
	m, err := stored.Open()
	if err != nil {
		return sub, err
	}
	if m.ChildID != child.id {
		return sub, problem.New(problem.Untrusted, "the host's answer is the manifest of another child")
	}
	parent, err := findPartyByID(a, ctx, c, m.ParentID, partial)
	if err != nil {
		return sub, err
	}
	if partial != nil {
		sub.Artefacts = partial.Artefacts
		f.capability = cmp.Or(f.capability, partial.Request.CapabilityText)
	}
	sub.Request = composite.GraduationRequest{ParentID: m.ParentID, ChildID: m.ChildID, CapabilityText: f.capability}
	if partial != nil && partial.Request.Hash() != sub.Request.Hash() {
		return sub, problem.New(problem.Usage, "%s was signed for a different request", f.partialFile)
	}
	for _, p := range []party{parent, child} {
		if err := signAsParty(a, ctx, c, p, &sub.Request); err != nil {
			return sub, err
		}
	}
	if parent.localIdentity == nil && child.localIdentity == nil {
		if f.endpoint != "" {
			return sub, problem.New(problem.Usage, "--endpoint: not supported unless the child is one of your identities; this child answers at its host")
		}
		return sub, nil
	}
	registryURL := func() (string, error) {
		if c.Remote == nil {
			return a.LocalHostURL(ctx, f.where.Data)
		}
		return a.RegistryURL(ctx, "", f.where)
	}
	return sub, signArtefacts(a, ctx, registryURL, f, &m, parent, child, &sub)
}
