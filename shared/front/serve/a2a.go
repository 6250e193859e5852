package serve

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/a2a"
	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/plain"
	"github.com/vacancy-host/vacancy/shared/front/teamapi"
	"github.com/vacancy-host/vacancy/shared/front/workapi"
	"github.com/vacancy-host/vacancy/shared/host/a2a/push"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/queue/local"
	"github.com/vacancy-host/vacancy/shared/host/team"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Storing an event is cheap in a process without Queues.
const (
	localChunkInterval = 50 * time.Millisecond
	localChunkRamp     = task.MaxEvents / 4
)

// A process that uses Queues serves only one request at a time, so maxQueuedFollow limits its
// streams.
const maxQueuedFollow = 60 * time.Second

type A2A struct {
	Plain     *plain.Service // serves callers that do not sign
	A2AServer a2a.Server
	Tasks     *task.Engine
	Push      *push.Pusher
	Team      *team.Team

	// If Bookings is nil, HandleMessage handles only turns.
	Bookings *booking.Service

	// Find must be set before the handlers are opened. If Find is nil, the model list is empty.
	Find                       FindFunc
	ReceiptsHandler            http.Handler
	VacantsHandler, AGPHandler http.Handler

	Server *Server

	localQueue *local.Queue // nil if the process uses Queues
	taskQueue  task.Queue
	models     *modelList
}

func (a *A2A) TeamHandler() http.Handler {
	if a.Server.Billing == nil {
		return nil
	}
	return teamapi.Handler(a.Team, a.Server.Billing, a.localQueue != nil, a.Server.config.Log, a.Server.config.Now)
}

func (a *A2A) WorkHandler() http.Handler {
	if a.Server.Billing == nil {
		return nil
	}
	return workapi.Handler(a.Server.workConfig(a.localQueue != nil), a.Server.Billing, a.Server.config.Log, a.Server.config.Now)
}

func (h *Server) workConfig(mayWait bool) workapi.Config {
	return workapi.Config{Broker: h.Workers, Vacants: h.Vacants, MayWait: mayWait}
}

type Queues struct {
	Tasks    task.Queue
	Notices  task.Notices
	MaxWait  time.Duration
	MaxTurns int
}

func (h *Server) OpenA2A() *A2A {
	queue := local.New(store.Updater{Store: h.config.Store, Rand: h.config.Rand}, h.config.Now)
	a := h.openA2A(task.Config{Queue: queue, ChunkInterval: localChunkInterval, ChunkRamp: localChunkRamp}, 0)
	a.localQueue = queue
	return a
}

// OpenQueuedA2A is like OpenA2A for a process that gets its work from queues. The process must pass
// messages of q.Tasks to A2A.HandleMessage, and messages of q.Notices to Push.Handle.
func (h *Server) OpenQueuedA2A(q Queues) *A2A {
	return h.openA2A(task.Config{Queue: q.Tasks, Notices: q.Notices, MaxRunningTurns: q.MaxTurns}, cmp.Or(q.MaxWait, call.DefaultCallTimeout))
}

func (h *Server) QueueSlowTurns(q task.Queue) {
	h.send = h.newTasks(task.Config{Queue: q}).Send
}

func (h *Server) AddTeamRoutes(q task.Queue) { h.openTeam(h.newTasks(task.Config{Queue: q}), false) }

func (h *Server) openTeam(tasks *task.Engine, mayWait bool) *team.Team {
	c := team.Config{Tasks: tasks, Vacants: h.Vacants, IsPublished: h.IsPublished, Workspaces: h.Files, Locks: h.locks}
	if h.Billing != nil {
		c.Lifetime = h.Billing.TaskLifetime
	}
	t := team.New(c)
	h.extraRoutes = append(append(h.extraRoutes, teamapi.OperatorRoutes(t, mayWait)...), workapi.OperatorRoutes(h.workConfig(mayWait))...)
	return t
}

func (h *Server) newTasks(t task.Config) *task.Engine {
	c := &h.config
	t.Store, t.Calls, t.Texts, t.Guests, t.Log, t.Now, t.Rand = c.Store, h.Calls, h.Texts, h.guests, c.Log, c.Now, c.Rand
	if h.Billing != nil {
		t.RefreshPayer = h.Billing.RefreshPayer
	}
	if h.locks != nil {
		t.Locks = h.locks
	}
	return task.New(t)
}

func (h *Server) openA2A(t task.Config, maxWait time.Duration) *A2A {
	c := &h.config
	tasks := h.newTasks(t)
	h.send = tasks.Send
	pusher := push.New(push.Config{Tasks: tasks, Client: h.Outbound, WithSigner: h.Vacants.WithSigner, AllowLoopback: c.OwnMachine, Log: c.Log, Now: c.Now, Notices: t.Notices})
	var identify func(context.Context, *http.Request) (*call.Payer, error)
	if h.Billing != nil {
		identify = h.Billing.Identify
	}
	var issuersOf func(context.Context, *vacants.Record) ([]string, error)
	if resourceConfig := h.resourceConfig(); resourceConfig != nil {
		issuersOf = resourceConfig.IssuerURLs
	}
	maxSubscription, limits := time.Duration(0), localModelLimits
	if t.Notices != nil {
		maxSubscription, limits = maxQueuedFollow, queuedModelLimits
	}
	a := &A2A{Tasks: tasks, Push: pusher, taskQueue: t.Queue, Server: h, models: &modelList{server: h, limits: limits, lock: make(chan struct{}, 1)}}
	a.Plain = plain.New(plain.Config{
		Tasks: tasks, Identify: identify, Issuers: issuersOf, Guests: h.guests, Directory: h.Vacants, Log: c.Log, Now: c.Now, MaxWait: maxWait,
	})
	a.Team = h.openTeam(tasks, t.Notices == nil)
	a.A2AServer = a2a.New(a2a.Config{
		Service: a.Plain, Push: pusher, WithSigner: h.Vacants.WithSigner, SignedCalls: h.MessageHandler(), MaxSubscription: maxSubscription,
		Callers: caller.Verifier{URL: h.Vacants.BaseURL, TrustHostHeader: c.TrustHostHeader, IsRevoked: h.Registry.IsRevoked, Now: c.Now},
	})
	return a
}

func (a *A2A) Models(ctx context.Context) ([]vacants.Record, error) {
	return a.models.list(ctx, a.Find)
}

// Run runs background turns until ctx ends, and then waits for the turns that are still running.
func (a *A2A) Run(ctx context.Context) {
	pushDone := make(chan struct{})
	go func() { defer close(pushDone); a.Push.Run(ctx) }()
	defer func() { <-pushDone }()
	sharesOf := func(message string, sender task.Sender) []task.Share {
		if booking.IsMessage(message) {
			return []task.Share{{Key: "bookings", Max: localBookings}}
		}
		taskShares := []task.Share{{Key: "turns", Max: localTurns}}
		ref, err := task.ParseRef(message)
		if err != nil {
			return taskShares // HandleMessage logs the error
		}
		isStranger := !sender.IsAccount() && !a.Server.config.OwnMachine
		return append(taskShares, task.Shares(ref, sender, isStranger, localTurns)...)
	}
	a.localQueue.Run(ctx, a.Server.config.Log, sharesOf, a.HandleMessage)
	a.Tasks.Wait()
}

const (
	localTurns    = 64
	localBookings = localTurns / 4
)

func (a *A2A) HandleMessage(ctx context.Context, message string) error {
	if a.Bookings != nil && booking.IsMessage(message) {
		return a.Bookings.HandleMessage(ctx, message)
	}
	return a.Tasks.RunQueued(ctx, message)
}
