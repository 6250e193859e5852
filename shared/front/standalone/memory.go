package standalone

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/handlers"
	"github.com/vacancy-host/vacancy/shared/front/origin"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mcp"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

// Single is a host in memory with one vacant. Its data are lost when it ends.
type Single struct {
	Listener net.Listener // listener on loopback; Run closes it
	Vacant   vacants.CreateSpec
	// Substrates are offered in addition to the host's own.
	Substrates substrate.Kinds
	setting.Host
	Log *slog.Logger
}

func (s *Single) Run(ctx context.Context, ready func(vacants.Record) error) error {
	defer s.Listener.Close()
	seal := make([]byte, 32)
	if _, err := rand.Read(seal); err != nil {
		return err
	}
	vault, err := local.FromHex(hex.EncodeToString(seal), rand.Reader)
	if err != nil {
		return err
	}
	data := memory.New()
	defer data.Close()
	server, err := serve.Config{
		Store: data, Vault: vault, AllowLoopback: true, OwnMachine: true, Substrates: s.Substrates, Models: kinds, Servers: mcp.Servers,
		Host: s.Host, URL: "http://" + s.Listener.Addr().String(), Log: s.Log, Now: time.Now, Rand: rand.Reader, Causes: true,
	}.Open()
	if err != nil {
		return err
	}
	defer server.Vacants.Close()
	vacant, err := server.Vacants.Create(ctx, s.Vacant)
	if err != nil {
		return err
	}
	agents := server.OpenA2A()
	ctx, end := context.WithCancel(ctx)
	defer end()
	worked := make(chan struct{})
	go func() { defer close(worked); agents.Run(ctx) }()
	served := make(chan error, 1)
	public := serve.LoopbackOnly(&origin.Judge{}, serve.Handlers{Message: server.MessageHandler(), Agents: agents.Plain, Protocols: handlers.Open(agents), Pages: server.Pages()}.Public())
	go func() {
		served <- serve.Run(ctx, s.Log, call.Grace, serve.Endpoint{Listener: s.Listener, Handler: public})
		end()
	}()
	// The listener is open, so ready may already send requests.
	if err = ready(vacant); err != nil {
		end()
	}
	if failed := <-served; err == nil {
		err = failed
	}
	<-worked
	return err
}
