"""The page: the gateway's catalogue and state, for people with a browser."""
