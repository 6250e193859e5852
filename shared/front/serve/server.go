package serve

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/origin"
	"github.com/vacancy-host/vacancy/shared/front/resource"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/front/workspaceapi"
	"github.com/vacancy-host/vacancy/shared/host/answer"
	"github.com/vacancy-host/vacancy/shared/host/answer/delegation"
	"github.com/vacancy-host/vacancy/shared/host/answer/filetools"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/paykeys"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/family/collusionevidence"
	"github.com/vacancy-host/vacancy/shared/host/family/egress"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/guests"
	"github.com/vacancy-host/vacancy/shared/host/keys/secrets"
	"github.com/vacancy-host/vacancy/shared/host/keys/signingkey"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/callstats"
	"github.com/vacancy-host/vacancy/shared/host/reviews"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/host/substrate/httpagent"
	"github.com/vacancy-host/vacancy/shared/host/substrate/loop"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/resources"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/host/substrate/think"
	"github.com/vacancy-host/vacancy/shared/host/substrate/worker"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/host/workspace/locks"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type Config struct {
	setting.Host
	Store store.Store
	Vault custody.Vault
	// AllowLoopback allows requests to loopback URLs that the operator chose.
	AllowLoopback bool
	// OwnMachine is true if all callers are on this machine. Callers may then also choose loopback
	// URLs. Callers on other machines could use such URLs to reach services that only this machine
	// can reach.
	OwnMachine bool
	// Resolver and Dial may be nil.
	Resolver outbound.Resolver
	Dial     outbound.DialFunc
	// A substrate is the backend that answers for a vacant, for example a model.
	Substrates substrate.Kinds
	Models     func(*outbound.Client) substrate.Kinds
	// ThinkService replaces Models and MCPServers by a service in another process, for substrates
	// of ThinkerKinds.
	ThinkService think.Service
	ThinkerKinds []string
	// If MCPServers is nil, agents cannot reach MCP servers.
	MCPServers func(*outbound.Client) loop.Servers
	// URL is the host's base URL. "" means the URL that PUT /v1/admin/host stores.
	URL string
	// Identity returns the host's identity from a key service. If Identity is nil, the host's
	// identity is sealed in the store.
	Identity func(context.Context) (identity.Signer, error)
	// Operator checks the operator's key in requests to Admin. If Operator is nil, the listener of
	// Admin must accept only the operator.
	Operator admin.KeyChecker
	// GatewayURL returns the base URL of accounts and AGP. The default is the host's URL.
	GatewayURL                                 func(context.Context) (string, error)
	Stage                                      string // stage on AWS, or ""
	Version                                    string
	Log                                        *slog.Logger
	Now                                        func() time.Time
	Rand                                       io.Reader // safe for concurrent use
	VerifyHandler, ChainHandler, BackupHandler http.Handler
	Status                                     func(context.Context) (admin.Status, error)
	Reindex                                    func(context.Context) (admin.Reindexed, error)
	// Feed lists new rows, which are the stored records of calls. If Feed is nil, this host does
	// not fold rows into usage.
	Feed        store.Feed
	Rows        store.Walker
	HasAccounts bool
	// If NewTokenChecker is nil, the host rejects all tokens.
	NewTokenChecker func(billing.TokenCheckerConfig) billing.TokenChecker
	// A process that sets AllowRemote must run the job "endpoints", because only vacants whose
	// endpoint answers are listed.
	AllowRemote bool
	// TrustHostHeader is true if a router has chosen this host by the request's Host header.
	// Otherwise the sender chooses Host freely.
	TrustHostHeader bool
	HoldsIdentity   bool
	// LogCauses adds the causes of failed calls to the log. A cause may quote the vacant's agent.
	LogCauses bool
	// If Blobs is nil, this process has no workspaces.
	Blobs func() (blob.Blobs, error)
}

type Server struct {
	Vacants     *vacants.Directory
	Answers     *answer.Answerer
	Texts       *textkeys.Keys
	Calls       *call.Host
	Registry    *registry.Registry
	Gate        *graduation.Service
	Reviews     *reviews.Service
	Outbound    *outbound.Client
	Billing     *billing.Billing // nil if the host has no accounts
	SigningKeys *signingkey.Keys
	Files       *workspace.Workspaces
	Workers     *worker.Broker

	locks  *locks.Locks
	config Config
	guests *guests.Keys
	// send is nil in processes without tasks, which do not link the task engine.
	send        message.SendFunc
	paymentKeys *secrets.Secrets
	extraRoutes []op.Route
}

// Open assembles the host. It does no I/O, so a cold start does not wait for the store.
func (h Config) Open() (*Server, error) {
	records, err := vacants.NewRecords(h.Store, h.Now, h.URL)
	if err != nil {
		return nil, err
	}
	reg := registry.New(registry.Config{Store: h.Store, Now: h.Now, Rand: h.Rand, AllowRemote: h.AllowRemote, AllowLoopback: h.OwnMachine, Endpoints: records})
	guard := egress.Guard{Vacants: records, Manifests: reg}.CheckPermission
	client := outbound.New(outbound.Options{
		AllowLoopback: h.OwnMachine, OperatorLoopback: h.AllowLoopback, Resolver: h.Resolver, Dial: h.Dial,
		Timeout: max(h.CallTimeout, outbound.DefaultTimeout), Guard: guard,
	})
	keys := textkeys.New(h.Store, h.Vault, h.Now, h.Rand, h.Retention)
	workers := worker.New(worker.Config{Store: h.Store, Texts: keys, Now: h.Now, Rand: h.Rand, TenantOf: records.WorkerTenant})
	kinds := substrate.Kinds{echo.Kind: echo.New, substrate.KindHTTP: httpagent.New(client)}
	maps.Copy(kinds, workers.Kinds())
	maps.Copy(kinds, h.Substrates)
	if h.Models != nil {
		maps.Copy(kinds, h.Models(client))
	}
	if h.ThinkService != nil {
		maps.Copy(kinds, think.Kinds(h.ThinkService, h.ThinkerKinds...))
	}
	var agentSecrets *secrets.Secrets
	var spending *spend.Budgets
	var modelTables *models.Tables
	if h.Models != nil || h.ThinkService != nil {
		agentSecrets = secrets.New(definition.SecretKind, h.Store, h.Vault, h.Now, h.Rand)
		spending = spend.New(store.Updater{Store: h.Store, Rand: h.Rand}, h.Now, h.ModelBudget)
		modelTables = models.NewTables(h.Store, h.Now, h.Rand)
	}
	var servers loop.Servers
	if h.MCPServers != nil {
		servers = h.MCPServers(client)
	}
	directory := vacants.New(vacants.Config{
		Records: records, Registry: reg, Vault: h.Vault, Rand: h.Rand, Identity: h.Identity, FeeBasisPoints: h.Fee, Quotas: h.Quotas,
		Resources: &resources.Resources{Substrates: kinds, Servers: servers, ThinkService: h.ThinkService, Functions: h.TenantFunctions, Secrets: agentSecrets, Budgets: spending, Models: modelTables},
	})
	answers := answer.New(answer.Config{Vacants: directory, Guard: guard, Workers: workers})
	var accounts *billing.Billing
	var ledger call.Ledger
	if h.HasAccounts {
		accounts = billing.New(billing.Config{Store: h.Store, Now: h.Now, Rand: h.Rand, MAC: keys.MAC, Self: directory.HostID, KeyPrefix: h.KeyPrefix, AGPKeyPrefix: h.AGPKeyPrefix, Quotas: h.Quotas,
			NewTokenChecker: h.NewTokenChecker, TokensConfig: billing.TokenCheckerConfig{Client: client, Resources: h.resourceConfig(directory).RequestURLs}})
		ledger = accounts
	}
	calls := call.New(call.Config{
		Ledger: ledger, Log: &call.Log{Logger: h.Log, LogsCauses: h.LogCauses},
		Store: h.Store, Directory: answers, Texts: keys, Now: h.Now, Rand: h.Rand, CallTimeout: h.CallTimeout,
		Self: directory.HostID, AreRevoked: reg.AreRevoked, IsSibling: reg.IsChild,
		Observe: callstats.New(callstats.Config{Store: h.Store, Manifests: reg, Now: h.Now, Rand: h.Rand}).Observe,
	})
	records.ClearCaches = func() {
		calls.ClearCache()
		keys.ClearCache()
		directory.ForgetAgents()
		if s, ok := h.Store.(store.CacheClearer); ok {
			s.ClearCache()
		}
	}
	signingConfig := signingkey.Config{Store: h.Store, Vault: h.Vault, Now: h.Now, Rand: h.Rand}
	if h.HoldsIdentity {
		signingConfig.Identity = directory.HostSigner
	}
	server := &Server{
		SigningKeys: signingkey.New(signingConfig),
		Vacants:     directory, Answers: answers, Texts: keys, Calls: calls, Registry: reg, Billing: accounts, config: h, Outbound: client, Workers: workers,
		paymentKeys: paykeys.New(h.Store, h.Vault, h.Now, h.Rand),
		guests:      guests.New(store.Updater{Store: h.Store, Rand: h.Rand}, h.Vault, h.Rand),
	}
	server.Reviews = &reviews.Service{Store: h.Store, Calls: calls, Vacants: directory, Registry: reg, Now: h.Now, Rand: h.Rand}
	server.Gate = graduation.New(graduation.Config{
		Store: h.Store, Vacants: directory, Registry: reg, Now: h.Now, Rand: h.Rand,
		Evidence: &collusionevidence.Collector{Store: h.Store, Vacants: directory, Registry: reg, Texts: keys, Now: h.Now},
	})
	if h.Blobs != nil {
		updater := store.Updater{Store: h.Store, Rand: h.Rand}
		mayWrite := func(ctx context.Context, owner string) error {
			if accounts == nil || owner == workspace.OperatorOwner {
				return nil
			}
			return accounts.CheckAccountActive(ctx, owner)
		}
		server.Files = workspace.New(workspace.Config{Store: updater, Blobs: h.Blobs, Vault: h.Vault, CheckWritable: mayWrite, RemoveRelated: locks.Remove, Now: h.Now})
		server.extraRoutes = workspaceapi.Routes(server.Files, op.Server{OperatorOnly: true})
		server.locks = &locks.Locks{Store: updater, Now: h.Now}
		tools := filetools.Config{Files: server.Files, Locks: server.locks}
		if h.Stage != "" {
			tools.GrepBytes = 8 << 20 // each file is a request to S3
		}
		answers.OfferFiles(tools)
	}
	return server, nil
}

func (h *Server) MessageHandler() http.Handler {
	c := &h.config
	return message.Handler(message.Config{Host: h.Calls, Directory: h.Vacants, Send: &h.send, Log: c.Log, Now: c.Now})
}

// Admin returns the handler of the operator's API. If Config.Operator is nil, the handler does not
// authenticate, so it must be served only on the admin socket or in this process.
func (h *Server) Admin() http.Handler {
	c, api := &h.config, h.adminConfig()
	if c.Rows != nil {
		api.Recount = func(ctx context.Context) (usage.RecountResult, error) {
			m := h.Meter()
			r := usage.Recounter{Meter: m, Rows: c.Rows, Fold: func(ctx context.Context) error {
				_, err := m.Fold(ctx)
				return err
			}}
			return r.Recount(ctx)
		}
	}
	if c.HoldsIdentity {
		api.RenewReceiptKey = h.SigningKeys.RenewIfDue
		api.Seal = func(ctx context.Context) (admin.Sealed, error) {
			l, err := h.OpenLog(nil)
			if err != nil {
				return admin.Sealed{}, err
			}
			s, err := l.Seal(ctx)
			return admin.Sealed{Host: s.Host, Size: s.Size, Root: s.Root, Epochs: s.EpochCount, Added: s.AddedLeaves}, err
		}
	}
	if c.Operator == nil {
		api.GraduationsHandler = h.GateHandler(nil)
		api.AllowedHost = admin.SocketHost
		return admin.Handler(api)
	}
	operatorHandler, childrenHandler, tenantHandler := admin.RequireKey(c.Operator, admin.Handler(api)), h.ChildrenHandler(), h.TenantsHandler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A parent signs its request for children. A tenant sends a key of its account.
		if r.Method == http.MethodPost && admin.IsChildrenPath(r.URL.Path) && r.Header["Authorization"] == nil {
			childrenHandler.ServeHTTP(w, r)
			return
		}
		if secret, err := billing.BearerSecret(r); err == nil && tenantHandler != nil && billing.IsSecret(secret) {
			tenantHandler.ServeHTTP(w, r)
			return
		}
		operatorHandler.ServeHTTP(w, r)
	})
}

func (h *Server) gatewayURL(ctx context.Context) (string, error) {
	return h.config.baseURLFunc(h.Vacants)(ctx)
}

func (h *Config) baseURLFunc(d *vacants.Directory) func(context.Context) (string, error) {
	if h.GatewayURL != nil {
		return h.GatewayURL
	}
	return d.BaseURL
}

func (h *Config) resourceConfig(d *vacants.Directory) *resource.Config {
	return &resource.Config{Base: h.baseURLFunc(d), FindByID: d.FindCached, FindByName: d.FindCachedByName}
}

func (h *Server) resourceConfig() *resource.Config {
	if h.Billing == nil || h.config.NewTokenChecker == nil {
		return nil
	}
	config := h.config.resourceConfig(h.Vacants)
	config.Issuers = h.Billing.RecentIssuers
	return config
}

func (h *Server) ResourceHandler() http.Handler {
	config := h.resourceConfig()
	if config == nil {
		return nil
	}
	return resource.Handler(*config, httpapi.API{Name: "resource", Log: h.config.Log, Now: h.config.Now, ReadLevel: slog.LevelDebug})
}

func (h *Server) MetadataURL() func(*http.Request) string {
	if config := h.resourceConfig(); config != nil {
		return config.MetadataURL
	}
	return nil
}

func (h *Server) PageJudge() *origin.Judge {
	return &origin.Judge{URL: h.gatewayURL, TrustHostHeader: h.config.TrustHostHeader, Allowed: h.config.AllowedOrigins}
}

func (h *Server) adminConfig() admin.Config {
	c := &h.config
	return admin.Config{
		Vacants: h.Vacants, Answers: h.Answers, Calls: h.Calls, VerifyHandler: c.VerifyHandler, ChainHandler: c.ChainHandler, BackupHandler: c.BackupHandler, Status: c.Status, Reindex: c.Reindex, Log: c.Log,
		HasKeyService: c.Identity != nil, Stage: c.Stage, Version: c.Version, Gate: h.Gate, Billing: h.Billing, PaymentKeys: h.paymentKeys, Receipts: h.receipts(), ExtraRoutes: h.extraRoutes, Reviews: h.Reviews,
		ChildReport: func(ctx context.Context, asker vacants.Asker, parent identity.ID, cursor string, n int) ([]delegation.Child, string, error) {
			return delegation.ReportChildren(ctx, asker, h.Vacants, c.Store, parent, cursor, n)
		},
	}
}

func (h *Server) TenantsHandler() http.Handler {
	if h.Billing == nil {
		return nil
	}
	return admin.TenantHandler(h.adminConfig())
}
