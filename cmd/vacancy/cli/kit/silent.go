package kit

import (
	"cmp"
	"encoding/json"
	"net"
	"net/url"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
)

// dialTime bounds a connection to this machine.
const dialTime = time.Second

// AgentHere returns the URL of a substrate if it is on this machine, otherwise "".
func AgentHere(spec string) string {
	s, err := substrate.Parse(spec)
	if err != nil {
		return ""
	}
	return hereOnly(s.Endpoint())
}

// ServersHere returns the URLs of an agent's MCP servers that are on this machine.
func ServersHere(agent json.RawMessage) (urls []string) {
	var a definition.Agent
	if json.Unmarshal(agent, &a) != nil {
		return nil
	}
	for _, s := range a.MCPServers {
		if at := hereOnly(s.URL); at != "" {
			urls = append(urls, at)
		}
	}
	return urls
}

func hereOnly(at string) string {
	if u, err := url.Parse(at); err == nil && outbound.IsThisMachine(u.Hostname()) {
		return u.String()
	}
	return ""
}

// IsSilent reports whether nothing listens at a URL of this machine.
func IsSilent(at string) bool {
	u, err := url.Parse(at)
	if err != nil {
		return false
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return !Listens(net.JoinHostPort(u.Hostname(), port))
}

// Listens reports whether a program listens at an address of this machine.
func Listens(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, dialTime)
	if err != nil {
		return false
	}
	c.Close()
	return true
}
