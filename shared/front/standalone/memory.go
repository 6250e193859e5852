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

// MemoryHost is a host in memory with one vacant. Its data are lost when it ends.
type MemoryHost struct {
	Listener   net.Listener // loopback listener, which Run closes
	VacantSpec vacants.CreateSpec
	Substrates substrate.Kinds
	setting.Host
	Log *slog.Logger
}

func (s *MemoryHost) Run(ctx context.Context, ready func(vacants.Record) error) error {
	defer s.Listener.Close()
	sealKey := make([]byte, 32)
	if _, err := rand.Read(sealKey); err != nil {
		return err
	}
	vault, err := local.FromHex(hex.EncodeToString(sealKey), rand.Reader)
	if err != nil {
		return err
	}
	data := memory.New()
	defer data.Close()
	server, err := serve.Config{
		Store: data, Vault: vault, AllowLoopback: true, OwnMachine: true, Substrates: s.Substrates, Models: clientKinds, MCPServers: mcp.Servers,
		Host: s.Host, URL: "http://" + s.Listener.Addr().String(), Log: s.Log, Now: time.Now, Rand: rand.Reader, LogCauses: true,
	}.Open()
	if err != nil {
		return err
	}
	defer server.Vacants.Close()
	vacant, err := server.Vacants.Create(ctx, s.VacantSpec)
	if err != nil {
		return err
	}
	a2a := server.OpenA2A()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	workDone := make(chan struct{})
	go func() { defer close(workDone); a2a.Run(ctx) }()
	serveResult := make(chan error, 1)
	handler := serve.LoopbackOnly(&origin.Judge{}, serve.Handlers{Message: server.MessageHandler(), Plain: a2a.Plain, Protocols: handlers.NewProtocols(a2a), PageJudge: server.PageJudge()}.Public())
	go func() {
		serveResult <- serve.Run(ctx, s.Log, call.GracePeriod, serve.Endpoint{Listener: s.Listener, Handler: handler})
		cancel()
	}()
	if err = ready(vacant); err != nil {
		cancel()
	}
	if serveErr := <-serveResult; err == nil {
		err = serveErr
	}
	<-workDone
	return err
}
