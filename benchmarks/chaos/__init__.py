"""Whether agents can live on a gateway while its servers are killed, hung, flooding and changed.

Its parts: the `servers` and what is done to them, the `clients` that search and
call meanwhile, and what is `observed` of the gateway's process.
"""
