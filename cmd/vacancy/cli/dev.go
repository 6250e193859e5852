package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// grace is how long running calls may take to end after the interrupt.
const grace = 10 * time.Second

// sweepEvery is the interval of looking for expired keys: text keys expire
// after hours, keys in memory after minutes.
const sweepEvery = time.Minute

// gcPercent lets the heap, which is a few megabytes, grow to five times the
// live data: measured, a tenth less CPU for each call at 15 MB more memory.
const gcPercent = 400

func (a *app) devCommand() *cobra.Command {
	var data string
	var o devOptions
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a host on this machine",
		Long: `Run a host over one file, make a vacant named demo that echoes, call it over HTTP,
verify its answer, and serve until Ctrl-C. A second start finds everything as it was
left. Beside the calls it keeps a registry, its search and its log ("vacancy publish",
"vacancy search", "vacancy log"). It listens on loopback only; administration goes
through a socket in the data directory, which is for its owner alone.

The log has one line per call: time, pair, seq, verdict, milliseconds.

The search index is in the data directory. For more than 200,000 cards it may be in an
OpenSearch cluster instead, as $VACANCY_OPENSEARCH_USER with
$VACANCY_OPENSEARCH_PASSWORD where that asks. A new one fills itself.`,
		Example: `  vacancy dev
  vacancy dev --listen 127.0.0.1:0 --data ./try
  vacancy dev --opensearch https://search.example:9200/cards`,
		GroupID: groupHost,
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.dev(cmd.Context(), data, o)
		},
	}
	cmd.Flags().StringVar(&o.listen, "listen", defaultListen, "a loopback address and port; port 0 picks a free one")
	clusterFlag(cmd.Flags(), &o.cluster)
	cmd.Flags().StringArrayVar(&o.witnesses, "witness", nil, "the verifier key of a witness that may cosign the log unregistered; may be repeated")
	dataFlag(cmd.Flags(), &data)
	return cmd
}

// devOptions configure a local host.
type devOptions struct {
	listen    string
	cluster   string // URL of the search index; "" for one in the data directory
	witnesses []string
}

func (a *app) dev(ctx context.Context, data string, o devOptions) (err error) {
	dir, err := a.dataDir(data)
	if err != nil {
		return err
	}
	if _, _, err := serve.DialAdmin(dir); err == nil {
		return problem.New(problem.Conflict, "a host is running over %s already", dir)
	}
	public, err := listenLoopback(o.listen)
	if err != nil {
		return err
	}
	defer public.Close()
	a.note("Starting a host over %s …", dir) // a large index may take seconds to open
	log := a.logger()
	host, err := a.openHost(dir, "http://"+public.Addr().String(), log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	handler, err := serve.ListenAdmin(dir, a.rand)
	if err != nil {
		return err
	}
	defer handler.Close()
	found, err := a.openFinding(ctx, dir, o.cluster, host, o.witnesses, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, found.close()) }()
	prepare(ctx, host, log)
	host.LogGateWarnings(ctx, log)
	debug.SetGCPercent(gcPercent)
	endpoints := a.seams.endpoints(
		serve.Endpoint{Listener: public, Handler: serve.LoopbackOnly(found.endpoints(host).Public())},
		serve.Endpoint{Listener: handler, Handler: serve.AdminHandler(handler, host.Admin), Streams: true},
	)
	// When either the person or a handler ends the run, both end.
	ctx, end := context.WithCancel(ctx)
	defer end()
	served := make(chan error, 1)
	go func() { served <- serve.Run(ctx, log, grace, endpoints...); end() }()
	go host.MaintainEvery(ctx, sweepEvery, log)
	go found.keep(ctx, log)
	ready, err := a.tryDemo(ctx, host, dir, "http://"+public.Addr().String())
	if err == nil {
		err = a.show(ready)
	}
	if err != nil {
		end()
	}
	<-ctx.Done()
	return errors.Join(err, <-served)
}

// listenLoopback listens on loopback only: dev has no limits and no accounts
// that would make it fit for others.
func listenLoopback(listen string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, problem.New(problem.Usage, "--listen: expected ADDRESS:PORT, got %q", listen)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, withHint(problem.New(problem.Usage, "--listen: expected a loopback address, got %q; dev is for this machine alone", host), "vacancy dev --listen %s", defaultListen)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, withHint(problem.New(problem.Unavailable, "%s is taken by another program", listen), "vacancy dev --listen 127.0.0.1:0")
	}
	if err != nil {
		return nil, problem.Wrap(problem.Usage, err, "--listen %s", listen)
	}
	return l, nil
}

func (a *app) logger() *slog.Logger {
	if a.json {
		return slog.New(slog.NewJSONHandler(a.err, nil))
	}
	return slog.New(slog.NewTextHandler(a.err, nil))
}

// prepare signs cards again that name another address. One damaged vacant does
// not keep the others from answering: it is logged, and fsck reports it.
func prepare(ctx context.Context, host *localHost, log *slog.Logger) {
	signed, err := host.Vacants.Rebase(ctx)
	if signed > 0 {
		log.InfoContext(ctx, "cards signed again for this address", "cards", signed)
	}
	if err != nil {
		log.ErrorContext(ctx, "cards could not be signed again", "cause", err.Error())
	}
}

// text greets the person: what runs, that it works, what to try.
func (r devResult) text(w io.Writer) {
	fmt.Fprintf(w, "A host over %s\n\n", printable(r.Data))
	fmt.Fprintf(w, "  %s is %s, %s\n", r.Demo.Name, r.Demo.ID, r.Demo.State)
	switch {
	case r.Call != nil && r.Call.Text != nil:
		fmt.Fprintf(w, "  %s asked it %q, signed, as call %d\n", r.Call.As, r.asked, r.seq)
		fmt.Fprintf(w, "  it answered %q\n", *r.Call.Text)
		fmt.Fprintf(w, "  verified: its signature, its place in the chain, and that it answers this call; %.1f ms\n", r.Call.Timing.TookMS)
	case r.Error != "":
		fmt.Fprintf(w, "  it was not called: %s\n", printable(r.Error))
	}
	fmt.Fprintf(w, "\nIt listens at %s. Try, in another terminal:\n\n", r.URL)
	fmt.Fprintf(w, "  vacancy call %s \"hello yourself\"\n", r.Demo.Name)
	fmt.Fprintf(w, "  vacancy call %s hi --print | curl --json @- %s/a2a/message/send\n", r.Demo.Name, r.URL)
	fmt.Fprintf(w, "  vacancy create scribe --capability \"repeats what it hears\"\n")
	fmt.Fprintf(w, "  vacancy publish %s\n", r.Demo.Name)
	fmt.Fprintf(w, "  vacancy call --capability echoes \"found you\"\n")
	fmt.Fprintf(w, "  vacancy list\n\nCtrl-C ends it. The log:\n\n")
}
