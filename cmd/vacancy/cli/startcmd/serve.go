package startcmd

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/snippet"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/front/web"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/problem"
)

type serveOptions struct {
	devOptions
	publicURL, certFile, keyFile, tlsDomain, acmeURL string
	trustedProxies, programDirs                      []string
	allowLoopbackAgents                              bool
}

func serveCommand(a *kit.App) *cobra.Command {
	var data string
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a public host on a server of your own",
		Long: `Run a public host in a data directory. --public-url is the address in cards and links. If the address
changes, the host signs its cards again. The host refuses requests with another Host header.

TLS: --tls-domain NAME gets a certificate from Let's Encrypt. --tls-cert and --tls-key read a
certificate from files; changed files are read again. Without these flags the host speaks plain http
to a proxy in front of it. It trusts the headers X-Forwarded-For and X-Forwarded-Proto only from the
addresses in --trusted-proxy.

Three flags limit the requests of each client address: --rate limits all requests, --pair-rate limits
first calls and resets, and --bytes limits the KB of large requests. The value is
tokens-per-second:burst, or "off" for no limit. If less than 1 GiB of the disk is free (5 % of a small
disk), the host answers 429 to write requests from others, except revocations and payments.

GET /health succeeds while the process serves. GET /ready succeeds if the store accepts writes, the
keys can be opened, and the disk has enough free space.

The host calls agents on this machine only with --allow-loopback-agents, and only if the operator set
their URLs. It never calls a URL of this machine that comes from a caller, a tenant or another host.
The operator's API is a socket in the data directory.

--run DIR hosts the agent of DIR/agent.md and starts its program, like "vacancy watch", but does not
watch for changes. --run implies --allow-loopback-agents. The program gets no variables whose names
begin with VACANCY_. At most 100 lines of its output per second go to the log. Strings that look like
secrets are hidden.

A program that ends is restarted after 1 s. The pause doubles after each short run, up to a minute.
After 10 consecutive runs of less than a minute, the program is not restarted. The processes that a
program started end with the program. Requests wait at most 5 s until the programs listen. When the
host ends, the programs end after its last call. A program that ignores SIGTERM is killed after 3 s.

Web pages of other sites cannot send requests, and can read only public documents. --allow-origin
names origins whose pages may do both, for example https://chat.example.com for a web app or
app://client for a desktop program.

After the first Ctrl-C the host refuses new calls and completes running calls.`,
		Example: `  vacancy serve --tls-domain agents.example.org
  vacancy serve --public-url https://agents.example.org --tls-cert cert.pem --tls-key key.pem --listen :8443
  vacancy serve --tls-domain agents.example.org --run fox --run owl
  vacancy serve --public-url https://agents.example.org --listen 10.0.0.5:8080 --trusted-proxy 10.0.0.0/24`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runServe(a, cmd.Context(), data, o)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.listen, "listen", "", "the address and port (default :443 with TLS, else "+kit.DefaultListen+")")
	fs.StringVar(&o.publicURL, "public-url", "", "the URL at which others reach this host (default https:// and --tls-domain)")
	fs.StringVar(&o.certFile, "tls-cert", "", "the certificate, a file in PEM")
	fs.StringVar(&o.keyFile, "tls-key", "", "the key of the certificate, a file in PEM")
	fs.StringVar(&o.tlsDomain, "tls-domain", "", "get a certificate for this name from an ACME authority")
	fs.StringVar(&o.acmeURL, "acme-url", "", "the directory URL of an ACME authority (default Let's Encrypt)")
	fs.StringArrayVar(&o.trustedProxies, "trusted-proxy", nil, "the addresses of a proxy in front, as `CIDR`; may be repeated")
	fs.BoolVar(&o.allowLoopbackAgents, "allow-loopback-agents", false, "call agents on this machine, if the operator set them")
	fs.StringArrayVar(&o.programDirs, "run", nil, "host the agent of `DIR` and run its program; may be repeated")
	kit.AddClusterFlag(fs, &o.cluster)
	addWitnessFlag(fs, &o.witnesses)
	a.AddLogFlag(fs)
	addDataFlags(fs, &o.newHost, &o.noUpgrade)
	o.settings.register(fs, "serve")
	kit.AddDataFlag(fs, &data)
	return cmd
}

func runServe(a *kit.App, ctx context.Context, data string, o serveOptions) error {
	settings, err := o.settings.parse()
	if err != nil {
		return err
	}
	baseURL, err := o.parseBaseURL()
	if err != nil {
		return err
	}
	var proxies []netip.Prefix
	for _, s := range o.trustedProxies {
		p, err := netip.ParsePrefix(s)
		if addr, addrErr := netip.ParseAddr(s); addrErr == nil {
			p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			return &problem.Error{Kind: problem.Usage, Field: "--trusted-proxy", Want: "addresses such as 10.0.0.0/24 or 127.0.0.1", Got: fmt.Sprintf("%.60q", s)}
		}
		proxies = append(proxies, p.Masked())
	}
	if err := checkNotRunning(a, ctx, data); err != nil {
		return err
	}
	programs, err := readPrograms(a, ctx, o.programDirs, data)
	if err != nil {
		return err
	}
	o.allowLoopbackAgents = o.allowLoopbackAgents || len(programs) > 0
	if o.listen == "" {
		if o.listen = kit.DefaultListen; o.tlsDomain != "" || o.certFile != "" {
			o.listen = ":443"
		}
	}
	listener, err := listenServe(o.listen)
	if err != nil {
		return err
	}
	tlsConfig, err := loadTLSConfig(a, data, baseURL, o)
	if err != nil {
		listener.Close()
		return err
	}
	if tlsConfig != nil {
		listener = tls.NewListener(listener, tlsConfig)
	}
	https := baseURL.Scheme == "https"
	h := hostRun{
		data: data, cluster: o.cluster, programs: programs,
		config: standalone.Config{URL: baseURL.String(), AllowLoopback: o.allowLoopbackAgents, AllowNew: o.newHost, NoUpgrade: o.noUpgrade, Host: settings},
		runOptions: standalone.RunConfig{Public: listener, Witnesses: o.witnesses, WrapPublic: func(next http.Handler) http.Handler {
			return standalone.BehindProxy(proxies, https && tlsConfig == nil, standalone.Guard(baseURL, standalone.EdgeLimits(settings, a.Now), settings.AllowedOrigins, next))
		}},
	}
	err = runHost(a, ctx, h, func(ctx context.Context, host *standalone.Host, dir string) error {
		demoWasPublished, err := unpublishDemo(ctx, host, dir)
		if err == nil {
			err = kit.MarkServed(dir)
		}
		if err != nil {
			return err
		}
		handout, warnings, err := findFirstHandout(a, ctx, host, o.allowLoopbackAgents)
		if err != nil {
			return err
		}
		if demoWasPublished {
			a.PrintNote("%s was published by dev and is now unpublished, because serve shows published vacants to the public; to publish it again: %s", demoName, a.FormatCommand("publish %s", demoName))
		}
		return a.PrintResult(serveResult{Pages: baseURL.String() + web.Path, URL: baseURL.String(), Listen: listener.Addr().String(), Data: dir, TLS: tlsConfig != nil, Proxies: o.trustedProxies, Warnings: warnings, Handout: handout})
	})
	if err == nil {
		printHostEnded(a, data)
	}
	return err
}

func (o *serveOptions) parseBaseURL() (*url.URL, error) {
	if o.publicURL == "" {
		if o.tlsDomain == "" {
			return nil, kit.WithHint(problem.New(problem.Usage, "--public-url: expected the URL at which others reach this host, for example https://agents.example.org, got none"), "vacancy serve --public-url https://NAME, or --tls-domain NAME")
		}
		o.publicURL = "https://" + o.tlsDomain
	}
	// ParseBaseURL allows http only for this machine.
	u, ok := standalone.ParseBaseURL(o.publicURL)
	if !ok {
		return nil, &problem.Error{Kind: problem.Usage, Field: "--public-url", Want: "https://HOST without path", Got: fmt.Sprintf("%.200q", o.publicURL)}
	}
	if o.tlsDomain != "" && !strings.EqualFold(u.Hostname(), o.tlsDomain) {
		return nil, problem.New(problem.Usage, "--public-url: expected a URL of --tls-domain %s, got %s", o.tlsDomain, u)
	}
	return u, nil
}

func loadTLSConfig(a *kit.App, data string, baseURL *url.URL, o serveOptions) (*tls.Config, error) {
	hasFiles, hasACME := o.certFile != "" || o.keyFile != "", o.tlsDomain != ""
	switch {
	case hasFiles && hasACME:
		return nil, problem.New(problem.Usage, "--tls-domain: not supported together with --tls-cert or --tls-key")
	case (o.certFile == "") != (o.keyFile == ""):
		return nil, problem.New(problem.Usage, "--tls-cert and --tls-key: expected both flags, got one")
	case o.acmeURL != "" && !hasACME:
		return nil, problem.New(problem.Usage, "--acme-url: not supported without --tls-domain")
	case (hasFiles || hasACME) && baseURL.Scheme != "https":
		return nil, problem.New(problem.Usage, "--public-url: expected https with TLS, got %s", baseURL)
	case hasACME:
		dir, err := a.DataDir(data)
		if err != nil {
			return nil, err
		}
		return standalone.ACMEConfig(dir, o.tlsDomain, o.acmeURL, a.Seams.ACMEClient), nil
	case hasFiles:
		c := &standalone.CertFiles{CertPath: o.certFile, KeyPath: o.keyFile, Log: a.StderrLogger(), Now: a.Now}
		config, err := c.Config()
		if err != nil {
			return nil, err
		}
		return config, c.CheckHostname(baseURL.Hostname())
	}
	return nil, nil
}

func listenServe(listen string) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(listen); err != nil {
		return nil, problem.New(problem.Usage, "--listen: expected ADDRESS:PORT, got %.80q", listen)
	}
	l, err := net.Listen("tcp", listen)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, problem.New(problem.Unavailable, "--listen: %s is taken by another program", listen)
	case errors.Is(err, syscall.EACCES):
		return nil, kit.WithHint(problem.New(problem.Forbidden, "--listen: this user may not open the privileged port of %s", listen), "--listen :8443 behind a proxy or a port forward, or use the systemd unit, which may open this port")
	case err != nil:
		return nil, problem.Wrap(problem.Usage, err, "--listen %s", listen)
	}
	return l, nil
}

type serveResult struct {
	Pages       string   `json:"pages"`
	URL         string   `json:"url"`
	Listen      string   `json:"listen"`
	Data        string   `json:"data"`
	TLS         bool     `json:"tls"`
	Proxies     []string `json:"trusted_proxies,omitempty"`
	Warnings    []string `json:"warnings,omitempty"`
	kit.Handout          // handout of the first vacant, or zero
}

// findFirstHandout returns the handout of the first vacant that answers calls. Unless allowLoopback
// is true, vacants with agents on this machine cannot answer, and a warning names them. If no
// vacant can answer, the handout of the first vacant is returned.
func findFirstHandout(a *kit.App, ctx context.Context, host *standalone.Host, allowLoopback bool) (first kit.Handout, warnings []string, err error) {
	client, baseURL := serve.InProcessClient(host.Admin())
	c := admin.Client{HTTP: client, URL: baseURL}
	var fallback kit.Handout
	var refusedNames []string
	for v, err := range c.AllVacants(ctx, false) {
		if err != nil {
			return first, nil, err
		}
		if !v.State.CanBeCalled() {
			continue
		}
		canAnswer := true
		if !allowLoopback {
			isLocal, err := needsLoopback(ctx, c, &v)
			if err != nil {
				return first, nil, err
			}
			if canAnswer = !isLocal; isLocal {
				refusedNames = append(refusedNames, v.Name)
			}
		}
		if h := kit.HandoutOf(&v); h.Address == "" {
			continue
		} else if canAnswer && first.Address == "" {
			first = h
		} else if fallback.Address == "" {
			fallback = h
		}
	}
	if len(refusedNames) > 0 {
		names := strings.Join(refusedNames[:min(len(refusedNames), maxWarnedNames)], ", ")
		if moreCount := len(refusedNames) - maxWarnedNames; moreCount > 0 {
			names += fmt.Sprintf(" and %d more", moreCount)
		}
		warnings = append(warnings, fmt.Sprintf("calls to %s fail, because this host does not call agents on its own machine; to allow these calls: %s --allow-loopback-agents", names, a.CommandLine()))
	}
	if first.Address == "" {
		first = fallback
	}
	return first, warnings, nil
}

// needsLoopback reports whether the agent, its model or one of its MCP servers is on this machine.
func needsLoopback(ctx context.Context, c admin.Client, v *admin.Vacant) (bool, error) {
	if spec, err := substrate.Parse(v.Substrate); err == nil && isOnThisMachine(spec.Endpoint()) {
		return true, nil
	}
	if v.AgentVersion == 0 {
		return false, nil
	}
	agent, err := admin.GetAgent.Call(ctx, c, admin.AgentRequest{VacantRef: admin.VacantRef{Vacant: v.ID.String()}})
	if problem.Is(err, problem.Conflict) { // the vacant answers by a plan
		return false, nil
	}
	var a definition.Agent
	if err != nil || json.Unmarshal(agent.Agent, &a) != nil {
		return false, err
	}
	return slices.ContainsFunc(a.MCPServers, func(s definition.Server) bool { return isOnThisMachine(s.URL) }), nil
}

func isOnThisMachine(rawURL string) bool {
	u, err := url.Parse(rawURL)
	return err == nil && outbound.IsThisMachine(u.Hostname())
}

const maxWarnedNames = 5

func (r serveResult) Print(w io.Writer) {
	how := "with TLS"
	if !r.TLS {
		how = "plain http, for a proxy in front"
	}
	fmt.Fprintf(w, "A host in %s\n\n  browsers see it at %s\n  others reach it at %s\n  it listens at %s, %s\n\n", kit.EscapeLine(r.Data), r.Pages, r.URL, r.Listen, how)
	if r.Address == "" {
		fmt.Fprintf(w, "Callers will reach a vacant NAME at %s/v/NAME/\n  %s\n", r.URL, snippet.CurlCommand(r.URL+"/v/NAME/text"))
	}
	r.Handout.Print(w)
	for _, warning := range r.Warnings {
		fmt.Fprintf(w, "\n%s: %s\n", kit.PaintVerdict(w, false, "warning"), kit.EscapeLine(warning))
	}
	fmt.Fprint(w, "\nCtrl-C ends it. The log:\n\n")
}
