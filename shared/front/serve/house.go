package serve

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/custody"
	"github.com/vacancy-host/vacancy/shared/host/hosted"
	"github.com/vacancy-host/vacancy/shared/host/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/host/substrate/httpsub"
	"github.com/vacancy-host/vacancy/shared/host/texts"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Retention is how long texts stay readable after the UTC day in which they
// were written, unless a home says otherwise (design §10: at least 24 h).
const Retention = 24 * time.Hour

// Home is what differs between homes: where things are kept, how secrets are
// sealed, what callers reach it by.
type Home struct {
	Store      store.Store
	Vault      custody.Vault
	Substrates substrate.Kinds
	URL        string // base URL, as callers reach the host
	Log        *slog.Logger
	Now        func() time.Time
	Rand       io.Reader
	Retention  time.Duration // 0: Retention
}

// House is a host put together: the same in every home.
type House struct {
	Vacants *hosted.Vacants
	Texts   *texts.Keys
	Host    *call.Host
	Message http.Handler // the door of signed calls
}

// Open puts a host together. It reads nothing yet, so that a function's start
// waits for no store.
func (h Home) Open() (*House, error) {
	if h.Retention == 0 {
		h.Retention = Retention
	}
	vacants, err := hosted.New(hosted.Config{Store: h.Store, Vault: h.Vault, Substrates: h.Substrates, Now: h.Now, Rand: h.Rand, URL: h.URL})
	if err != nil {
		return nil, err
	}
	keys := texts.New(h.Store, h.Vault, h.Now, h.Rand, h.Retention)
	host := call.New(call.Config{
		Store: h.Store, Directory: vacants, Texts: keys, Now: h.Now, Rand: h.Rand,
		Self: func(ctx context.Context) (identity.ID, error) {
			self, err := vacants.Self(ctx)
			if err != nil {
				return identity.ID{}, err
			}
			return self.ID(), nil
		},
	})
	door := message.Handler(message.Config{Host: host, Directory: vacants, Log: h.Log, Now: h.Now})
	return &House{Vacants: vacants, Texts: keys, Host: host, Message: door}, nil
}

// Substrates are the ones that every home offers. With loopback, HTTP
// endpoints may be on this machine: for dev only, where the person's own
// programs are the substrates.
func Substrates(loopback bool) substrate.Kinds {
	client := outbound.New(outbound.Options{AllowLoopback: loopback})
	return substrate.Kinds{echo.Kind: echo.New, substrate.KindHTTP: httpsub.New(client)}
}
