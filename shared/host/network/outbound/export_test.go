package outbound

// CloseIdle closes idle connections, so that the next request dials.
func (c *Client) CloseIdle() {
	c.operatorClient.CloseIdleConnections()
	c.privateClient.CloseIdleConnections()
	c.defaultClient.CloseIdleConnections()
}
