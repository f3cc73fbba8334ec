"""The application: what every surface asks, without knowing its wire."""
