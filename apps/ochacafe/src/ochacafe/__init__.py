"""The smallest Hanei application: a café that serves pods."""
