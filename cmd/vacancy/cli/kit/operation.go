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

// Operation describes a command that calls one operation of a host, with a request of type In and
// an answer of type Out. The usage line defines the arguments of the command.
type Operation[In, Out any] struct {
	Use, Short, Long, Example string

	Op Caller[In, Out]
	// API provides the operation. The default is HostAPI.
	API   API
	Flags func(*pflag.FlagSet) // adds the command's own flags
	// Request creates the request before a host is chosen. If Request is nil, the zero In is sent.
	Request func(Request) (In, error)
	// Next collects the pages of a list. It appends page to all, changes in to request the next page,
	// and returns false after the last page. If Next is nil, the answer is one page.
	Next  func(in *In, all *Out, page Out) (more bool)
	Print func(io.Writer, Out) // writes the answer for people
	// Object returns the object of --json. If Object is nil, the answer is that object.
	Object func(Out) any
	// Explain adds a hint to an error of the operation.
	Explain func(Request, error) error
}

// Caller calls one or more operations of a host.
type Caller[In, Out any] interface {
	Call(context.Context, op.Client, In) (Out, error)
}

// CallerFunc is a function that implements Caller.
type CallerFunc[In, Out any] func(context.Context, op.Client, In) (Out, error)

func (f CallerFunc[In, Out]) Call(ctx context.Context, c op.Client, in In) (Out, error) {
	return f(ctx, c, in)
}

// Request contains the arguments and flags that the user gave.
type Request struct {
	Command string            // command path, for example vacancy keys create
	Args    []string          // arguments, without TENANT if the API reads it
	Changed func(string) bool // reports whether a flag was given
	Tenant  string            // value of TENANT or --tenant, as the API reads it
}

func (q Request) Account() account.One { return account.One{Account: q.Tenant} }

func (q Request) OfTenant() admin.OfTenant { return admin.OfTenant{Tenant: q.Tenant} }

// API is an API of a host, together with the flags that choose the host.
type API interface {
	// Flags adds the flags that choose the host.
	Flags(*cobra.Command)
	// Read returns the arguments and flags of a command, without the arguments that only the API uses.
	Read(cmd *cobra.Command, args []string) (Request, error)
	// With runs f with a client of the API.
	With(ctx context.Context, a *App, q Request, f func(op.Client) error) error
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
		return o.API.With(cmd.Context(), a, q, func(c op.Client) error {
			out, err := o.call(cmd.Context(), c, in)
			if err != nil && o.Explain != nil {
				err = o.Explain(q, err)
			}
			if err != nil {
				return err
			}
			object := any(out)
			if o.Object != nil {
				object = o.Object(out)
			}
			return a.Print(object, func(w io.Writer) { o.Print(w, out) })
		})
	}}
	if o.Flags != nil {
		o.Flags(cmd.Flags())
	}
	o.API.Flags(cmd)
	return cmd
}

func (o Operation[In, Out]) call(ctx context.Context, c op.Client, in In) (result Out, err error) {
	if o.Next == nil {
		return o.Op.Call(ctx, c, in)
	}
	for {
		page, err := o.Op.Call(ctx, c, in)
		if err != nil || !o.Next(&in, &result, page) {
			return result, err
		}
	}
}

// HostAPI is the API of a host's operator. It also accepts a tenant's key with the scope vacants.
type HostAPI struct{ Where Where }

func (h *HostAPI) Flags(cmd *cobra.Command) { HostFlags(cmd.Flags(), &h.Where) }

func (*HostAPI) Read(cmd *cobra.Command, args []string) (Request, error) {
	return Request{Command: cmd.CommandPath(), Args: args, Changed: cmd.Flags().Changed}, nil
}

func (h *HostAPI) With(_ context.Context, a *App, _ Request, f func(op.Client) error) error {
	return a.WithAdmin(h.Where, false, func(c *AdminAPI) error { return f(c) })
}

// TenantAPI returns a HostAPI for the settings of a host or a tenant. It has the flag --tenant.
func TenantAPI(usage string) API { return &tenantAPI{usage: usage} }

type tenantAPI struct {
	HostAPI
	usage, tenant string
}

func (t *tenantAPI) Flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.tenant, "tenant", "", t.usage)
	t.HostAPI.Flags(cmd)
}

func (t *tenantAPI) Read(cmd *cobra.Command, args []string) (Request, error) {
	q, err := t.HostAPI.Read(cmd, args)
	if q.Tenant = t.tenant; err == nil && q.Changed("tenant") && t.tenant == "" {
		// A script with an empty variable would otherwise change the settings of the host.
		err = problem.New(problem.Usage, "--tenant: expected a tenant, got none; without the flag the command is about the host")
	}
	return q, err
}

// AccountAPI returns the API of accounts. If the command's first argument is TENANT or [TENANT],
// operators use it to name the account. Without this argument, the key in $VACANCY_KEY selects the
// account.
func AccountAPI() API { return &accountAPI{} }

type accountAPI struct{ HostAPI }

func (t *accountAPI) Read(cmd *cobra.Command, args []string) (Request, error) {
	q, err := t.HostAPI.Read(cmd, args)
	words := strings.Fields(cmd.Use)
	_, maxArgs := argumentsOf(cmd.Use)
	if len(words) > 1 && strings.Trim(words[1], "[]") == "TENANT" && len(args) == maxArgs {
		q.Tenant, q.Args = args[0], args[1:]
	}
	return q, err
}

func (t *accountAPI) With(ctx context.Context, a *App, q Request, f func(op.Client) error) error {
	return a.WithAccount(ctx, t.Where, q.Tenant, func(c op.Client, _ account.One) error { return f(c) })
}
