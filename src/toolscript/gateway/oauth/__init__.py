"""Logs in to remote upstreams with OAuth."""
