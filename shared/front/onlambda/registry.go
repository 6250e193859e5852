package onlambda

import (
	"net/http"

	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
)

// RegistryHandler is the handler of the registry, with its transparency log.
func RegistryHandler(h *Env) http.Handler { return h.Server.RegistryHandler(h.log()) }

func (h *Env) log() *translog.Log {
	l, err := h.Server.OpenLog(nil)
	if err != nil {
		panic(err) // only a witness's key can be wrong, and none is configured
	}
	return l
}
