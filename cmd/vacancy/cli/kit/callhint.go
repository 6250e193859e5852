package kit

import (
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/serve"
)

// AdminAt is the admin API of a running host; nil if the person has no access.
func (a *App) AdminAt(w Where) *admin.Client {
	at, err := a.Find(w)
	if err != nil {
		return nil
	}
	if at != nil {
		url, key, err := at.keyed(at.Record.AdminURL)
		if err != nil {
			return nil
		}
		return &admin.Client{HTTP: a.KeyedClient(key), URL: url}
	}
	dir, err := a.DataDir(w.Data)
	if err != nil {
		return nil
	}
	client, base, err := serve.DialAdmin(dir)
	if err != nil {
		return nil
	}
	return &admin.Client{HTTP: client, URL: base}
}
