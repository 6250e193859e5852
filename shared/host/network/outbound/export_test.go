package outbound

// CloseIdle closes idle connections, so that the next request dials.
func (c *Client) CloseIdle() {
	c.operators.CloseIdleConnections()
	c.private.CloseIdleConnections()
	c.others.CloseIdleConnections()
}
