"""How searches hold up as the catalogue grows: see `benchmarks.scale.measure`."""
