"""The app that the documentation speaks of."""
