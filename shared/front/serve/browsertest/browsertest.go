// Package browsertest lists requests by which web pages attack programs that listen on loopback.
package browsertest

import "strings"

// Request is a request that a page of another site makes a browser send.
type Request struct {
	Name, Method, Host string
	// Browsers send the Content-Type application/json without a preflight only for a page that has
	// become same-origin by DNS rebinding.
	Header [][2]string
}

func Attacks(addr string) (attacks []Request) {
	// No request may have an effect, or an answer that the page can read.
	_, port, _ := strings.Cut(addr, ":")
	add := func(name, method, host string, header ...string) {
		r := Request{Name: name, Method: method, Host: host}
		for i := 0; i < len(header); i += 2 {
			r.Header = append(r.Header, [2]string{header[i], header[i+1]})
		}
		attacks = append(attacks, r)
	}
	for _, media := range []string{"text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json"} {
		for name, origin := range map[string]string{
			"another site": "https://evil.example", "another port": "http://127.0.0.1:3000", "localhost": "http://localhost:3000", "a sandbox": "null",
		} {
			add("a page of "+name+" posts "+media, "POST", addr, "Origin", origin, "Content-Type", media)
			add("a page of "+name+" posts "+media+" and the browser tells its site", "POST", addr, "Origin", origin, "Sec-Fetch-Site", "cross-site", "Content-Type", media)
		}
		for _, host := range []string{
			"evil.example:" + port, "evil.example", "127.0.0.1.evil.example:" + port, "evillocalhost:" + port, "localhost.evil.example", "192.168.0.2:" + port, "127.0.0.1@evil.example", "",
		} {
			add("a page whose name was rebound, "+host+", posts "+media, "POST", host, "Origin", "http://"+host, "Sec-Fetch-Site", "same-origin", "Content-Type", media)
			add("a page whose name was rebound, "+host+", posts "+media+" without marks", "POST", host, "Content-Type", media)
		}
	}
	add("an image", "GET", addr, "Sec-Fetch-Site", "cross-site")
	add("a page of a sibling site", "GET", addr, "Sec-Fetch-Site", "same-site")
	add("a rebound image", "GET", "evil.example:"+port)
	add("a preflight", "OPTIONS", addr, "Origin", "https://evil.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type")
	add("a preflight for a private network", "OPTIONS", addr, "Origin", "https://evil.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Private-Network", "true")
	return attacks
}
