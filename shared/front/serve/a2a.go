package serve

import (
	"context"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/a2a"
	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/host/call/queue/local"
	"github.com/vacancy-host/vacancy/shared/host/call/task"
	"github.com/vacancy-host/vacancy/shared/host/keys/guests"
	"github.com/vacancy-host/vacancy/shared/host/network/push"
	"github.com/vacancy-host/vacancy/shared/store"
)

// localChunk is for how long a process that polls nothing joins the pieces of an
// answer.
const localChunk = 50 * time.Millisecond

// A2A serves vacants to A2A clients in this process.
type A2A struct {
	http.Handler
	Tasks *task.Engine

	queue  *local.Queue
	push   *push.Pusher
	server *Server
}

// OpenA2A makes the handler of A2A and the worker of its tasks.
func (h *Server) OpenA2A() *A2A {
	c := &h.config
	updater := store.Updater{Store: c.Store, Rand: c.Rand}
	queue := local.New(updater, c.Now)
	tasks := task.New(task.Config{Store: c.Store, Calls: h.Calls, Texts: h.Texts, Queue: queue, Chunk: localChunk, Log: c.Log, Now: c.Now, Rand: c.Rand})
	pusher := push.New(push.Config{Tasks: tasks, Client: h.pushes, Sign: h.Vacants.Sign, AllowLoopback: c.OwnMachine, Log: c.Log, Now: c.Now})
	return &A2A{Tasks: tasks, queue: queue, push: pusher, server: h, Handler: a2a.Handler(a2a.Config{
		Tasks: tasks, Push: pusher, Guests: guests.New(updater, c.Vault, c.Rand), Directory: h.Vacants, Signed: h.Message, Log: c.Log, Now: c.Now,
		Callers: caller.Verifier{URL: h.Vacants.Base, Routed: c.TrustedHost, Revoked: h.Registry.IsRevoked, Now: c.Now},
	})}
}

// maxTurns is how many turns run in the background at once.
const maxTurns = 64

// Run runs turns in the background until ctx ends, and then until they have ended.
func (a *A2A) Run(ctx context.Context) {
	pushed := make(chan struct{})
	go func() { defer close(pushed); a.push.Run(ctx) }()
	defer func() { <-pushed }()
	a.queue.Run(ctx, maxTurns, a.server.config.Log, a.Tasks.Work)
	a.Tasks.Wait()
}
