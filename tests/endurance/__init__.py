"""Long attacks, kills, chaos, floods and disturbances: ``bash scripts/test endurance``.

The usual run does a hundredth of each, and leaves out those with the marker ``long``.
"""
