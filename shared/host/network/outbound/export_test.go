package outbound

// CloseIdle closes connections that no request uses, so that a test sees the
// next dial.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }
