package kit

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Operation describes a command that calls one operation of a host. Use defines the arguments of
// the command.
type Operation[In, Out any] struct {
	Use, Short, Long, Example string

	Op Caller[In, Out]
	// API is HostAPI by default.
	API      API
	AddFlags func(*pflag.FlagSet)
	// Request creates the request from the arguments. If Request is nil, the zero In is sent.
	Request func(Request) (In, error)
	// AppendPage appends a page of a list to all and changes in to request the next page. It
	// returns false after the last page. If AppendPage is nil, the answer is one page.
	AppendPage func(in *In, all *Out, page Out) (more bool)
	Print      func(io.Writer, Out)
	// JSONObject returns the output of --json. The default is the answer.
	JSONObject func(Out) any
	AddHint    func(Request, error) error
}

// Caller calls one or more operations of a host.
type Caller[In, Out any] interface {
	Call(context.Context, op.Client, In) (Out, error)
}

type CallerFunc[In, Out any] func(context.Context, op.Client, In) (Out, error)

func (f CallerFunc[In, Out]) Call(ctx context.Context, c op.Client, in In) (Out, error) {
	return f(ctx, c, in)
}

type Request struct {
	Command string   // for example "vacancy keys create"
	Args    []string // excludes TENANT if the API reads it
	Changed func(string) bool
	Tenant  string // TENANT or --tenant
}

func (q Request) Account() account.Ref { return account.Ref{Account: q.Tenant} }

func (q Request) TenantRef() admin.TenantRef { return admin.TenantRef{Tenant: q.Tenant} }

// API is an API of a host, together with the flags that choose the host.
type API interface {
	AddFlags(*cobra.Command)
	// Read returns the command's arguments and flags, without the arguments that only the API uses.
	Read(cmd *cobra.Command, args []string) (Request, error)
	WithClient(ctx context.Context, a *App, q Request, f func(op.Client) error) error
}

func (o Operation[In, Out]) Command(a *App) *cobra.Command {
	if o.API == nil {
		o.API = &HostAPI{}
	}
	cmd := &cobra.Command{Use: o.Use, Short: o.Short, Long: o.Long, Example: o.Example, RunE: func(cmd *cobra.Command, args []string) error {
		q, err := o.API.Read(cmd, args)
		if err != nil {
			return err
		}
		var in In
		if o.Request != nil {
			if in, err = o.Request(q); err != nil {
				return err
			}
		}
		return o.API.WithClient(cmd.Context(), a, q, func(c op.Client) error {
			out, err := o.call(cmd.Context(), c, in)
			if err != nil && o.AddHint != nil {
				err = o.AddHint(q, err)
			}
			if err != nil {
				return err
			}
			object := any(out)
			if o.JSONObject != nil {
				object = o.JSONObject(out)
			}
			return a.Print(object, func(w io.Writer) { o.Print(w, out) })
		})
	}}
	if o.AddFlags != nil {
		o.AddFlags(cmd.Flags())
	}
	o.API.AddFlags(cmd)
	return cmd
}

func (o Operation[In, Out]) call(ctx context.Context, c op.Client, in In) (result Out, err error) {
	if o.AppendPage == nil {
		return o.Op.Call(ctx, c, in)
	}
	for {
		page, err := o.Op.Call(ctx, c, in)
		if err != nil || !o.AppendPage(&in, &result, page) {
			return result, err
		}
	}
}

// HostAPI is the API of a host's operator. It also accepts a tenant's key with the scope vacants.
type HostAPI struct{ Where HostFlags }

func (h *HostAPI) AddFlags(cmd *cobra.Command) { AddHostFlags(cmd.Flags(), &h.Where) }

func (*HostAPI) Read(cmd *cobra.Command, args []string) (Request, error) {
	return Request{Command: cmd.CommandPath(), Args: args, Changed: cmd.Flags().Changed}, nil
}

func (h *HostAPI) WithClient(_ context.Context, a *App, _ Request, f func(op.Client) error) error {
	return a.WithAdmin(h.Where, false, func(c *AdminAPI) error { return f(c) })
}

// NewTenantAPI returns a HostAPI with the flag --tenant, for the settings of a host or a tenant.
func NewTenantAPI(usage string) API { return &tenantAPI{usage: usage} }

type tenantAPI struct {
	HostAPI
	usage, tenant string
}

func (t *tenantAPI) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.tenant, "tenant", "", t.usage)
	t.HostAPI.AddFlags(cmd)
}

func (t *tenantAPI) Read(cmd *cobra.Command, args []string) (Request, error) {
	q, err := t.HostAPI.Read(cmd, args)
	if q.Tenant = t.tenant; err == nil && q.Changed("tenant") && t.tenant == "" {
		// A script with an empty variable would otherwise change the settings of the host.
		err = problem.New(problem.Usage, "--tenant: expected a tenant, got an empty value; omit the flag for the settings of the host")
	}
	return q, err
}

// NewAccountAPI returns the API of accounts. The argument TENANT selects the account for an
// operator; otherwise the key in $VACANCY_KEY selects the account.
func NewAccountAPI() API { return &accountAPI{} }

type accountAPI struct{ HostAPI }

func (t *accountAPI) Read(cmd *cobra.Command, args []string) (Request, error) {
	q, err := t.HostAPI.Read(cmd, args)
	words := strings.Fields(cmd.Use)
	_, maxArgs := countArguments(cmd.Use)
	if len(words) > 1 && strings.Trim(words[1], "[]") == "TENANT" && len(args) == maxArgs {
		q.Tenant, q.Args = args[0], args[1:]
	}
	return q, err
}

func (t *accountAPI) WithClient(ctx context.Context, a *App, q Request, f func(op.Client) error) error {
	return a.WithAccount(ctx, t.Where, q.Tenant, func(c op.Client, _ account.Ref) error { return f(c) })
}
