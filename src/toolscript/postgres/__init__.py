"""What gateways share through one PostgreSQL database: the stores, and who does what."""
