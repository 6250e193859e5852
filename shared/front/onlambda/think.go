package onlambda

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/think"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// RunThink serves package think to other functions, which ask models through it. It never returns.
func RunThink(features ...Feature) {
	env, _ := openOrExit(functions.Think, os.Stdout, features...)
	lambda.Start((&thinker{service: env.Server.Answers.ThinkService(), log: env.Log}).invoke)
}

func (s Settings) ThinkKinds() []string {
	kinds := []string{substrate.KindAnthropic, substrate.KindBedrock, substrate.KindGemini, substrate.KindLambda, substrate.KindMCP, substrate.KindMistral, substrate.KindOpenAI}
	if s.AllowMocks {
		kinds = append(kinds, substrate.KindMock)
	}
	return kinds
}

type thinker struct {
	service   think.Service
	log       *slog.Logger
	coldStart coldStart
}

func (t *thinker) invoke(ctx context.Context, event json.RawMessage) (io.Reader, error) {
	ctx, _ = t.coldStart.withUsage(ctx)
	return think.Serve(ctx, t.service, event, func(ctx context.Context, r think.Report) {
		// This line may be dropped (obs.Config.Public). The function message still logs each call
		// with all its turns.
		verdict, level, status := "ok", slog.LevelInfo, http.StatusOK
		attrs := []slog.Attr{slog.String("op", truncate(r.Op)), slog.String("vacant", r.Vacant.Short()),
			slog.Int("in", r.Usage.InputTokens), slog.Int("out", r.Usage.OutputTokens), slog.Int("cost", r.Usage.Cost)}
		if r.Err != nil {
			p := problem.AsError(r.Err)
			verdict, status = p.Kind.String(), p.Kind.Forms().HTTPStatus
			if p.Kind == problem.Internal {
				level = slog.LevelError
			}
			attrs = append(attrs, slog.String("cause", p.Error()))
		}
		t.log.LogAttrs(context.WithoutCancel(ctx), level, "think", append(attrs, slog.String(obs.AttrVerdict, verdict), slog.Int(obs.AttrStatus, status))...)
	}), nil
}
