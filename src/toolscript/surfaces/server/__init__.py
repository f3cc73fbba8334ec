"""The gateway as a process: sockets, authentication, logs and metrics."""
