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

// Values of task.Config in a process that does not use Queues, where storing an event is cheap.
const (
	localChunkInterval = 50 * time.Millisecond
	localChunkRamp     = task.MaxEvents / 4
)

// maxQueuedFollow limits the duration of a stream that only follows a task. It applies to processes
// that use Queues, because such a process serves only one request at a time. The client resumes
// the stream with Last-Event-ID.
const maxQueuedFollow = 60 * time.Second

// A2A contains the tasks of vacants and the dependencies of protocol handlers.
type A2A struct {
	Plain     *plain.Service // serves callers that do not sign
	A2AServer a2a.Server     // signs the cards of vacants, and serves A2A
	Tasks     *task.Engine
	Push      *push.Pusher
	Team      *team.Team

	// Bookings is the booking service whose messages HandleMessage handles. If it is nil,
	// HandleMessage handles only turns.
	Bookings *booking.Service

	// Find finds the published vacants for the model list of OpenAI clients and the search of MCP.
	// It must be set before the handlers are opened. If Find is nil, the list is empty, and the
	// host has no MCP server of its own.
	Find FindFunc
	// ReceiptsHandler serves the receipts of accounts to MCP. It may be nil.
	ReceiptsHandler http.Handler
	// VacantsHandler serves the operations on vacants to MCP (Server.TenantsHandler), and AGPHandler
	// serves AGP to MCP. Both use the credential of the request. If a handler is nil, MCP does not
	// list its tools.
	VacantsHandler, AGPHandler http.Handler

	Server *Server

	localQueue *local.Queue // nil if the process gets its work from Queues
	taskQueue  task.Queue   // queue of background turns
	models     *modelList
}

func (a *A2A) TeamHandler() http.Handler {
	if a.Server.Billing == nil {
		return nil
	}
	return teamapi.Handler(a.Team, a.Server.Billing, a.localQueue != nil, a.Server.config.Log, a.Server.config.Now)
}

// WorkHandler returns the public handler of workers, or nil for a host without accounts.
func (a *A2A) WorkHandler() http.Handler {
	if a.Server.Billing == nil {
		return nil
	}
	return workapi.Handler(a.Server.workConfig(a.localQueue != nil), a.Server.Billing, a.Server.config.Log, a.Server.config.Now)
}

// workConfig returns the dependencies of the workers' API. mayWait specifies whether requests may
// wait for turns.
func (h *Server) workConfig(mayWait bool) workapi.Config {
	return workapi.Config{Broker: h.Workers, Vacants: h.Vacants, MayWait: mayWait}
}

// Queues carries the work of A2A to processes that run only while they handle a message.
type Queues struct {
	Tasks   task.Queue
	Notices task.Notices
	// MaxWait limits how long a client waits for a slow vacant. The default is
	// call.DefaultCallTimeout.
	MaxWait time.Duration
	// MaxTurns limits the concurrent turns of the host (task.Config.MaxRunningTurns). It may be zero in a
	// process that runs no turns.
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

// QueueSlowTurns makes MessageHandler pass the turns of slow vacants (call.Host.IsSlow) to a queue,
// in a process that does not serve A2A.
func (h *Server) QueueSlowTurns(q task.Queue) {
	h.send = h.newTasks(task.Config{Queue: q}).Send
}

func (h *Server) AddTeamRoutes(q task.Queue) { h.openTeam(h.newTasks(task.Config{Queue: q}), false) }

// openTeam returns the service for teams of agents, and adds the operator's routes for teams and
// workers to Admin. mayWait specifies whether requests may wait until a turn ends.
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
	var issuers func(context.Context, *vacants.Record) ([]string, error)
	if resourceConfig := h.resourceConfig(); resourceConfig != nil {
		issuers = resourceConfig.IssuerURLs
	}
	maxSubscription, limits := time.Duration(0), localModels
	if t.Notices != nil {
		maxSubscription, limits = maxQueuedFollow, queuedModels
	}
	a := &A2A{Tasks: tasks, Push: pusher, taskQueue: t.Queue, Server: h, models: &modelList{server: h, limits: limits, lock: make(chan struct{}, 1)}}
	a.Plain = plain.New(plain.Config{
		Tasks: tasks, Identify: identify, Issuers: issuers, Guests: h.guests, Directory: h.Vacants, Log: c.Log, Now: c.Now, MaxWait: maxWait,
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

// Run runs background turns until ctx ends, and then waits until they have ended.
func (a *A2A) Run(ctx context.Context) {
	pushDone := make(chan struct{})
	go func() { defer close(pushDone); a.Push.Run(ctx) }()
	defer func() { <-pushDone }()
	shares := func(message string, sender task.Sender) []task.Share {
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
	a.localQueue.Run(ctx, a.Server.config.Log, shares, a.HandleMessage)
	a.Tasks.Wait()
}

// localTurns and localBookings limit the concurrent turns and bookings in one process.
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
