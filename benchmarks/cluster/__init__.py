"""Several gateways with one database, under clients, kills, pauses and outages."""
