"""How search holds up as the catalogue grows: see `benchmarks.scale.__main__`."""
