// Package onlambda runs the handlers and jobs of a host as AWS Lambda functions: it reads the
// environment, opens the adapters, assembles the server and passes Lambda's events to it.
//
// A function with a wrong environment does not start, and reports all wrong variables in one line.
// A function whose tables are missing or have another schema starts nevertheless and answers 503,
// because Lambda would retry and bill a failed start for every call.
package onlambda

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/kms"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/operator"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
)

// Env contains the settings and connections that a function's handler uses. If the function has no
// tables, only Settings and Log are set. Server is nil in functions.Search and functions.Indexer.
type Env struct {
	Settings
	*serve.Server
	AWS          aws.Config
	Store        *dynamo.Store
	Vault        custody.Vault
	Operator     admin.KeyChecker
	Log          *slog.Logger
	HandleDirect DirectHandler

	hasKeyedCallers bool
}

// DirectHandler handles an event that did not come through the Function URL. A client of the URL
// cannot send a direct event, because Lambda wraps every request in an event of its own.
type DirectHandler func(ctx context.Context, event json.RawMessage) (answer any, ok bool, err error)

// Feature adds an optional part to the host of a Lambda function.
type Feature func(*Env, *serve.Config)

func openEnv(ctx context.Context, f functions.Function, s Settings, log *slog.Logger, features ...Feature) (*Env, error) {
	env := &Env{Settings: s, Log: log, hasKeyedCallers: f == functions.Gateway}
	if s.Tables == (dynamo.TableNames{}) {
		return env, nil
	}
	awsCfg, err := loadAWSConfig(ctx, os.Getenv, log)
	if err != nil {
		return nil, err
	}
	env.AWS, env.Store = awsCfg, dynamo.New(dynamo.NewClient(awsCfg), s.Tables)
	switch f {
	case functions.Search:
		env.warmUp(ctx)
		return env, nil
	case functions.Indexer:
		return env, nil
	}
	env.Operator = operator.Keys{Store: env.Store, Now: wallClock, Rand: rand.Reader}
	config := serve.Config{
		Store: env.Store, URL: s.URL, Operator: env.Operator, Stage: s.Stage, Version: version(),
		Host: s.Host, Log: log, Now: wallClock, Rand: rand.Reader, HoldsIdentity: f.UsesHostIdentity, TrustHostHeader: true, AllowRemote: true,
		HasAccounts: f.HandlesAccounts,
	}
	if isKMSKeyARN(env.SealKey) || isKMSKeyARN(env.HostKey) {
		client := kms.NewClient(awsCfg)
		if isKMSKeyARN(env.HostKey) {
			config.Identity = kms.NewSigner(client, env.HostKey)
		}
		if isKMSKeyARN(env.SealKey) {
			env.Vault = kms.New(client, env.SealKey)
		}
	}
	if isHexKey(env.SealKey) {
		if env.Vault, err = local.FromHex(env.SealKey, rand.Reader); err != nil {
			return nil, err
		}
	}
	config.Vault = env.Vault
	for _, addFeature := range features {
		addFeature(env, &config)
	}
	if env.Server, err = config.Open(); err != nil {
		return nil, err
	}
	if f.URL || f.IsInvoked() { // a caller waits for the answer
		env.warmUp(ctx)
	}
	return env, nil
}

const warmTimeout = 2 * time.Second

// warmKey names a missing document, which every function's role may read.
var warmKey = store.Key{Partition: registry.RegistrationDocs.Key("").Partition, Sort: "warm"}

func (h *Env) warmUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, warmTimeout)
	defer cancel()
	if err := h.Store.Warm(ctx, warmKey); err != nil {
		h.Log.LogAttrs(ctx, slog.LevelError, "the tables do not answer", slog.String("cause", problem.AsError(err).Text()))
	}
}

func RegistryHandler(env *Env) http.Handler { return env.Server.RegistryHandler(env.openRegistryLog()) }

func (h *Env) openRegistryLog() *translog.Log {
	l, err := h.Server.OpenLog(nil)
	if err != nil {
		panic(err) // OpenLog fails only if a witness's key is invalid, and nil contains no keys
	}
	return l
}

// wallClock omits the monotonic reading, because the monotonic clock may stop while a function is
// frozen.
func wallClock() time.Time { return time.Now().Round(0) }

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return ""
}

func openOrExit(f functions.Function, out io.Writer, features ...Feature) (*Env, slog.Handler) {
	s, logHandler := configureOrExit(f, out)
	logger := slog.New(logHandler)
	env, err := openEnv(context.Background(), f, s, logger, features...)
	if err != nil {
		failStart(logger, err)
	}
	return env, logHandler
}

func configureOrExit(f functions.Function, out io.Writer) (Settings, slog.Handler) {
	s, err := ReadSettings(f, os.Getenv)
	logHandler := obs.NewHandler(out, obs.Config{Stage: s.Stage, Function: f.Name, Version: version(), PublishUnits: f == functions.Message, Public: f.DropsQuietLines()})
	log.SetFlags(0)
	log.SetOutput(slog.NewLogLogger(logHandler, slog.LevelWarn).Writer())
	if err != nil {
		failStart(slog.New(logHandler), err)
	}
	return s, logHandler
}

func failStart(log *slog.Logger, err error) {
	log.LogAttrs(context.Background(), slog.LevelError, "the function does not start", slog.String("cause", problem.AsError(err).Error()))
	os.Exit(1)
}
